"""
Jobs as data: the model, requests, rules, columns and checks. No clock, no threads, no I/O.

Users import from `tickwheel.scheduler`, which has the public names.
"""
