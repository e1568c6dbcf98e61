"""
Load tests of a running service, at a rate that does not depend on the service (an open loop).

    stages        rates and thresholds
    figures       measurements of one stage
    run           runs the stages, one after the other
    page          writes the results as a page
"""
