"""
TimerWheel: an engine and what moves time.
"""
