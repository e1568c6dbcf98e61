"""
Timers and the engine: a wheel with a clock and callbacks, without I/O of its own.
"""
