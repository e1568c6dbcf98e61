"""
Events, hooks and collectors.
"""
