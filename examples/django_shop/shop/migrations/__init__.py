"""
The migrations of the tables.
"""
