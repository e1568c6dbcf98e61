"""
The handlers of the server for screenshots, and a way to make the server's store stop answering.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tickwheel.scheduler import StoreError

AWAY = Path(os.environ["TICKWHEEL_DEMO_AWAY"])
"""Path of a file. While this file exists, the store does not answer."""


def register(scheduler: Any) -> None:
    """
    Register one handler that works and one that fails. Let reads of the store fail while the file `AWAY` exists.
    """

    @scheduler.handler("mail")
    def mail(_payload: Any) -> None:
        pass

    @scheduler.handler("invoice")
    def invoice(_payload: Any) -> None:
        message = "smtp.example.com:587 refused the connection"
        raise ConnectionError(message)

    for name in ("stats", "list", "upcoming"):
        setattr(scheduler, name, _while_it_answers(getattr(scheduler, name)))


def _while_it_answers(read: Any) -> Any:
    def read_the_store(*arguments: Any, **options: Any) -> Any:
        if AWAY.exists():
            what, remedy = "sqlite:///tickwheel.db cannot be read: disk I/O error", "look at the disk"
            raise StoreError(what, remedy, is_transient=True)
        return read(*arguments, **options)

    return read_the_store
