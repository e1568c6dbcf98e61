"""
Load on a running service, at a rate that the service does not decide.

    stages        what is asked for, and what is tolerated
    figures       what one stage was like
    run           the stages, one after the other
    page          what came of them, as a page
"""
