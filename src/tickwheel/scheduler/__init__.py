"""
The durable scheduler: jobs by key that survive a crash.
"""
