"""
The end of an attempt that its target holds, as the target sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tickwheel.scheduler.engine._staged_job import Phase, StagedJob
from tickwheel.scheduler.model import Answer, Progress

__all__ = ["HeldEnd"]


class Holding(Protocol):
    """
    The dispatcher, which starts and ends held attempts.
    """

    def start_held(self, entry: StagedJob) -> Callable[[], object] | None: ...

    def end_held(
        self,
        entry: StagedJob,
        result: object,
        error: BaseException | None,
        on_answer: Callable[[Answer | Exception], object] | None,
    ) -> bool: ...


class HeldEnd:
    """
    Starts and ends one held attempt.
    """

    __slots__ = ("_dispatcher", "_entry")

    def __init__(self, dispatcher: Holding, entry: StagedJob) -> None:
        self._dispatcher = dispatcher
        self._entry = entry

    def start(self) -> Callable[[], object] | None:
        return self._dispatcher.start_held(self._entry)

    def has_ended(self) -> bool:
        return self._entry.phase not in (Phase.BEGUN, Phase.RUNNING)

    def note(self, progress: Progress) -> None:
        self._entry.progress = progress

    def __call__(
        self,
        result: object = None,
        error: BaseException | None = None,
        on_answer: Callable[[Answer | Exception], object] | None = None,
    ) -> bool:
        return self._dispatcher.end_held(self._entry, result, error, on_answer)
