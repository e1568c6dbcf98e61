"""
Replay, compare, tune and watch the designs.

    trace       what was set, moved and removed when, as a file
    generate    such traces, made from a seed
    designs     designs by name, with their geometry
    replay      a trace through a wheel, to the last count
    tune        which geometry suits a trace
    workload    copies of a trace over each other, until enough timers are pending
    measure     what one design costs under a workload, in a process of its own
    compare     all designs, at several sizes
    report      a comparison as a page
    watch       a design at work, as a page
"""
