"""
Handlers that the server of the tests registers.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tickwheel.scheduler import Firing


def register(scheduler: Any) -> None:
    """
    Register handlers that succeed, fail, take long or report progress.
    """

    @scheduler.handler("works")
    def works(_payload: Any) -> None:
        pass

    @scheduler.handler("fails")
    def fails(_payload: Any) -> None:
        message = "<script>alert('no')</script>"
        raise RuntimeError(message)

    @scheduler.handler("steps")
    def steps(payload: Any, firing: Firing) -> None:
        """
        Report a first page, and a second page as soon as the file named *payload* exists, until the job is stopped.
        """
        firing.progress(0.25, "page 1")
        while not Path(payload).exists():
            firing.heartbeat()
            time.sleep(0.01)
        while True:
            firing.progress(0.5, "page 2")
            time.sleep(0.01)

    @scheduler.handler("notes")
    def notes(payload: Any, firing: Firing) -> None:
        """
        Note *payload* as the result of the firing.
        """
        firing.progress(1, payload)

    @scheduler.handler("repeats")
    def repeats(payload: Any) -> None:
        raise RuntimeError(payload)
