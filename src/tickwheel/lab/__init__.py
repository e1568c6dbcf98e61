"""
Replay, compare, tune and watch the designs.

    trace       files of operations: set, move and cancel, with their times
    generate    synthetic traces, made from a seed
    designs     designs by name, with their geometry
    replay      a trace on a wheel, with counters
    tune        the geometry that suits a trace
    workload    overlapping copies of a trace, until enough timers are pending
    measure     the cost of one design under a workload, in a separate process
    compare     all designs, at several sizes
    report      a comparison as a page
    watch       a design at work, as a page
"""
