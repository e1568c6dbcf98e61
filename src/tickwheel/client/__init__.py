"""
The operations on a store.

Internal: other packages use it, users do not.
"""
