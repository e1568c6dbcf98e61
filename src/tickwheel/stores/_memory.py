from __future__ import annotations

from dataclasses import replace

from tickwheel.stores._base import BaseStore

__all__ = ["MemoryStore"]


class MemoryStore(BaseStore):
    """
    Keeps jobs in memory, so they are lost when the process ends. A store belongs to one scheduler.
    """

    abilities = replace(BaseStore.abilities, loss_window="everything, when the process ends")
    url = "memory://"
