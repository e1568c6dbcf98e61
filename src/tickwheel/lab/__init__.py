"""
Replay, compare, tune and watch the designs.

    trace       files of operations: set, move and cancel, with their times
    generate    synthetic traces, made from a seed
    designs     finds designs, with their geometry, by name
    replay      a trace on a wheel, with counters
    tune        the geometry that suits a trace
    workload    overlapping copies of a trace, until enough timers are pending
    measure     the cost of one design under a workload, in a separate process
    compare     all designs, at several sizes
    report      writes a comparison as a page
    watch       writes a page that shows a design at work
"""
