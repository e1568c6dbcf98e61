"""
Internal: the operations on a store.
"""
