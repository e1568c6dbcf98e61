"""
Timing-wheel designs behind one protocol.
"""
