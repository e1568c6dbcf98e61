"""
Handlers of the server that screenshots are taken of, and a store that stops answering on demand.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tickwheel.scheduler import StoreError

AWAY = Path(os.environ["TICKWHEEL_DEMO_AWAY"])
"""While this file is there, the store does not answer."""


def register(scheduler: Any) -> None:
    """
    Register one handler that works and one that cannot; and make the figures fail while the store is unreachable.
    """

    @scheduler.handler("mail")
    def mail(_payload: Any) -> None:
        pass

    @scheduler.handler("invoice")
    def invoice(_payload: Any) -> None:
        message = "smtp.example.com:587 refused the connection"
        raise ConnectionError(message)

    stats = scheduler.stats

    def stats_of_the_store() -> Any:
        if AWAY.exists():
            what, remedy = "sqlite:///tickwheel.db cannot be read: disk I/O error", "look at the disk"
            raise StoreError(what, remedy, is_transient=True)
        return stats()

    scheduler.stats = stats_of_the_store
