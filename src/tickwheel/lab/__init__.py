"""
Replay, compare, tune and watch designs of timing wheels.

`trace` and `generate` make files of operations (set, move and cancel, with their times). `replay` runs a trace on a
wheel and counts what happens. `tune` finds the geometry that suits a trace. `workload` overlaps copies of a trace.
`measure` measures one design under a workload in a separate process, and `compare` does this for all designs at several
sizes. `report` and `watch` write pages.
"""
