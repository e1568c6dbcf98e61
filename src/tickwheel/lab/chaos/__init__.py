"""
A service in trouble, and whether it kept its promise.

    plan        which faults come when, from a seed
    link        a connection that can be slow, cut or closed
    subject     the service's process, which can be paused and killed
    history     what was asked, acknowledged and delivered, and when something was wrong
    judge       what of that breaks the promise
    run         all of it together
"""
