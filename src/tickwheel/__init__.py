"""
tickwheel: timers by the million, and timers that survive a crash.
"""
