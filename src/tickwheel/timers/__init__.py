"""
Timer and the engine: a wheel with a clock and callbacks, sans-IO.
"""
