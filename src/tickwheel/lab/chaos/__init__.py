"""
Chaos tests of a service: faults, and a check of its promise.
"""
