"""
Handlers that the tests' server registers.
"""

from __future__ import annotations

from typing import Any


def register(scheduler: Any) -> None:
    """
    Register one handler that works, one that fails, and one that takes long.
    """

    @scheduler.handler("works")
    def works(_payload: Any) -> None:
        pass

    @scheduler.handler("fails")
    def fails(_payload: Any) -> None:
        message = "<script>alert('no')</script>"
        raise RuntimeError(message)

    @scheduler.handler("repeats")
    def repeats(payload: Any) -> None:
        raise RuntimeError(payload)
