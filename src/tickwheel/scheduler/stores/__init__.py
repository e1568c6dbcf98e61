"""
Where far jobs wait.
"""
