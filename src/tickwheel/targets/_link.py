"""
One connection of a target: opened on first use, shared, and opened again after it broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ["Link"]

_T = TypeVar("_T")


class Link(Generic[_T]):
    """
    Holds a connection on one event loop, and on another once it was closed.

    There is no reconnecting behind the scenes: a message that cannot be sent is a failed attempt, and the next attempt
    connects. So no message waits in a buffer that nobody sees.

    Args:
        connect: Makes a connection.
        disconnect: Ends one, broken or not.
        is_open: Whether one can be used.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[_T]],
        disconnect: Callable[[_T], Awaitable[object]],
        is_open: Callable[[_T], bool],
    ) -> None:
        self._connect = connect
        self._disconnect = disconnect
        self._is_open = is_open
        self._lock = asyncio.Lock()
        self._held: _T | None = None

    async def get(self) -> _T:
        """
        Return an open connection.
        """
        async with self._lock:
            held = self._held
            if held is None or not self._is_open(held):
                if held is not None:
                    await self._end(held)
                self._held = held = await self._connect()
            return held

    async def drop(self, held: _T | None) -> None:
        """
        End the connection *held*, unless somebody has put another in its place.
        """
        if held is not None and held is self._held:
            self._held = None
            await self._end(held)

    async def close(self) -> None:
        """
        End the connection, if there is one.
        """
        held, self._held = self._held, None
        self._lock = asyncio.Lock()  # one that somebody has waited for belongs to this loop for good
        if held is not None:
            await self._end(held)

    async def _end(self, held: _T) -> None:
        with suppress(Exception):  # it is broken, which is why it goes
            await self._disconnect(held)
