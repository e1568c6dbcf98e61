"""
Measures tickwheel and its peers in one run, on this machine.

    python -m benchmarks timers --quick --json timers.json
"""
