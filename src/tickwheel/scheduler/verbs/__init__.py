"""
The verbs: what callers ask of jobs, checked, made writes, and committed in groups.
"""
