"""
Replay, compare and watch the designs.
"""
