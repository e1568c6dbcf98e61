"""
Load tests of a running service, at a rate that does not depend on the service (an open loop).

    stages        rates and thresholds
    figures       measurements of one stage
    run           the stages, one after the other
    page          the results as a page
"""
