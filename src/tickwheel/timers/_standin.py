"""
Callbacks of ours that stand for one of the user's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tickwheel.typing import Pending

__all__ = ["StandIn"]


class StandIn(ABC):
    """
    What an engine is given to call where there is more to do than to call the user's function.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self) -> object:
        """
        Do what is due.
        """

    @abstractmethod
    def ended(self, pending: Pending) -> Pending:
        """
        Note that its wheel was drained or closed, and return *pending* as the user knows it.
        """
