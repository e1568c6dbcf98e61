"""
Jobs as data: the model, requests, rules, columns and checks. Does no I/O, reads no clock and starts no threads.

Users import from `tickwheel.scheduler`, which has the public names.
"""
