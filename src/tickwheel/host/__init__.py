"""
Code shared by `engine`, `client` and `remote`: runtime, store clock, hooks, options, registry, writer, withdrawal.

Internal: other packages use it, users do not.
"""
