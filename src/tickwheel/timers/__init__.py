"""
Timers, and the engine: a wheel with a clock and callbacks. It does no I/O.
"""
