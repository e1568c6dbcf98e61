"""
Load tests of a running service, at a rate that does not depend on the service (an open loop).
"""
