"""
Lets a target end an attempt that it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tickwheel.engine._staged_job import StagedJob
from tickwheel.jobs.model import Answer, Progress

if TYPE_CHECKING:
    from tickwheel.engine._dispatcher import Dispatcher

__all__ = ["HeldEnd"]


class HeldEnd:
    __slots__ = ("_dispatcher", "_entry")

    def __init__(self, dispatcher: Dispatcher, entry: StagedJob) -> None:
        self._dispatcher = dispatcher
        self._entry = entry

    def start(self) -> Callable[[], object] | None:
        return self._dispatcher.start_held(self._entry)

    def note(self, progress: Progress) -> None:
        self._entry.progress = progress

    def __call__(
        self,
        result: object = None,
        error: BaseException | None = None,
        on_answer: Callable[[Answer | Exception], object] | None = None,
    ) -> bool:
        return self._dispatcher.end_held(self._entry, result, error, on_answer)
