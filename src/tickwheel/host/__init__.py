"""
Internal: code shared by `engine`, `client` and `remote`.
"""
