"""
Chaos tests of a service: faults, and a check of its promise.

    plan        a plan of faults, from a seed
    link        a connection that can be slow, cut or closed
    subject     the service's process, which can be paused and killed
    history     requests, acknowledgements, deliveries and faults
    judge       finds violations of the promise in a history
    run         runs everything together
"""
