"""
`loop._scheduled`, which some programs read: the pending timers of a loop as a sequence.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from tickwheel._core import TimerLoop

__all__ = ["Scheduled", "WakeUp"]


class WakeUp:
    """
    A handle that runs all due timers of a loop whose `_run_once` was replaced (nest_asyncio).
    """

    _cancelled = False

    def __init__(self, deliver: Callable[[], object], when: float) -> None:
        self._run = deliver
        self._when = when

    def __lt__(self, other: WakeUp) -> bool:
        return self._when < other._when


class Scheduled(Sequence[TimerHandle]):
    """
    A live view of a loop's pending timers, the earliest first. It is not a list, so `heapq` refuses it.

    `len` costs O(1), everything else O(n log n). Cancelled timers are removed at once.
    """

    def __init__(self, loop: TimerLoop) -> None:
        self._loop = loop

    def __len__(self) -> int:
        return self._loop._pending_count()  # noqa: SLF001 - the view is a part of the loop

    def __iter__(self) -> Iterator[TimerHandle]:
        return iter(self._loop._pending())  # noqa: SLF001 the list is a view of the loop's list

    @overload
    def __getitem__(self, place: int) -> TimerHandle: ...

    @overload
    def __getitem__(self, place: slice) -> list[TimerHandle]: ...

    def __getitem__(self, place: int | slice) -> TimerHandle | list[TimerHandle]:
        return self._loop._pending()[place]  # noqa: SLF001 the list is a view of the loop's list

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list | Scheduled):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} timers>"

    def clear(self) -> None:
        """
        Drop all pending timers. They will not run, and do not count as cancelled.
        """
        self._loop._drop_pending()  # noqa: SLF001 the list is a view of the loop's list
