"""
Handlers of the services that have incidents.
"""

from __future__ import annotations

import time
from pathlib import Path


def register(scheduler):
    """
    Register handlers that work, that fail for some, and that are slow for as long as there is a file.
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
        Take a quarter of a second while there is the file *payload*.
        """
        if Path(payload).exists():
            time.sleep(0.25)  # so that these jobs are a burst: their workers are busy
