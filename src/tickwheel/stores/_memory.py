from __future__ import annotations

from dataclasses import replace

from tickwheel.stores._base import BaseStore

__all__ = ["MemoryStore"]


class MemoryStore(BaseStore):
    """
    Jobs in memory, which end with the process. A store belongs to one scheduler.
    """

    abilities = replace(BaseStore.abilities, loss_window="everything, when the process ends")
    url = "memory://"
