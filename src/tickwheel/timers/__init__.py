"""
Timers, and the engine: a wheel with a clock and callbacks. The engine does no I/O.
"""
