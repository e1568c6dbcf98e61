"""
Each module is a command.
"""
