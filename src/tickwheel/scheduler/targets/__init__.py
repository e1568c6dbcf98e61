"""
Where a fired job goes.
"""
