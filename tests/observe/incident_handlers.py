"""
Handlers of the services in the tests of incidents.
"""

from __future__ import annotations

import time
from pathlib import Path


def register(scheduler):
    """
    Register a handler that works, one that fails for the payload "unknown", and one that is slow while a file exists.
    """

    @scheduler.handler("works")
    def works(_payload):
        pass

    @scheduler.handler("finds")
    def finds(payload):
        if payload == "unknown":
            message = "no such customer"
            raise LookupError(message)

    @scheduler.handler("slow")
    def slow(payload):
        """
        Take a quarter of a second while the file *payload* exists.
        """
        if Path(payload).exists():
            time.sleep(0.25)  # so that these jobs keep their workers busy, like a burst
