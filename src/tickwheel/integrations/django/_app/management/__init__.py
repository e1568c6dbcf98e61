"""
Commands for `manage.py`.
"""
