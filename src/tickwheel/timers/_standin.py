"""
Callbacks of ours that stand for one of the user's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tickwheel.typing import Pending

__all__ = ["KeyedStandIn", "StandIn"]


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

    @abstractmethod
    def refused(self) -> None:
        """
        Note that an executor would not run it: what is ours is done all the same, the user's function is not called.

        The timer is still due, so it can be rescheduled; where it is not, it ends when this returns.
        """


class KeyedStandIn(ABC):
    """
    What a wheel is given as `on_expire` where there is more to do than to call the user's.

    Attributes:
        callback: The user's.
    """

    __slots__ = ("callback",)

    callback: Callable[[Any, Any], object]

    @abstractmethod
    def __call__(self, key: Any, value: Any, /) -> object:
        """
        Do what is to be done when *key* expires.
        """

    @abstractmethod
    def refused(self, key: Any, value: Any, /) -> None:
        """
        Note that *key* expired, and an executor would not tell of it.
        """
