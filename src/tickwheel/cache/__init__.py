"""
A TTL cache on the wheel.
"""
