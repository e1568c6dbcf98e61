"""
What users and we test with: a manual clock, contract suites, state machines, faults.
"""
