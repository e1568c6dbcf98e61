"""
The verbs on a store.

Internal: other packages use it, users do not.
"""
