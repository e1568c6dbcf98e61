"""
Chaos tests of a service: they inject faults, and check that no job is lost, early, or delivered twice without cause.
"""
