"""
Diagnostics for callers with a write token. Each answer is bounded in size, and only one profile runs at a time.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from tickwheel.observe.profiles import profile, stacks
from tickwheel.service.documents import CountersDocument
from tickwheel.service.figures import Figures
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import query, to_number
from tickwheel.service.problems import ProblemError
from tickwheel.service.replies import document_reply

__all__ = ["PROFILE_FIELDS", "Debug"]

_SECONDS_MAX: Final = 60
PROFILE_FIELDS: Final[dict[str, Any]] = {
    "seconds": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": _SECONDS_MAX,
        "default": 5,
        "description": "How long to watch.",
    }
}
_TEXT: Final = b"text/plain; charset=utf-8"


class Debug:
    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._is_profiling = False
        self._stop = threading.Event()

    async def stacks(self, call: Request) -> Reply:
        """
        Return the current stack of every thread and task.
        """
        query(call)
        return Reply(200, _TEXT, stacks(asyncio.all_tasks()).encode(errors="replace"))

    async def wheel(self, call: Request) -> Reply:
        """
        Return the native core's counters of this process's timer wheel.
        """
        query(call)
        return document_reply(CountersDocument((await self._figures.scheduler_stats())["wheel"]))

    async def profile(self, call: Request) -> Reply:
        """
        Return a CPU profile over the requested seconds, as collapsed stacks for a flame graph.
        """
        seconds = to_number("seconds", query(call, PROFILE_FIELDS).get("seconds", "5"))
        if not 0 < seconds <= _SECONDS_MAX:
            remedy = f"give more than 0 and at most {_SECONDS_MAX}"
            raise ProblemError("invalid_value", f"seconds is {seconds!r}: {remedy}", value=seconds, remedy=remedy)
        if self._is_profiling:
            raise ProblemError(
                "too_many_requests", "a profile is being taken", headers={"retry-after": str(_SECONDS_MAX)}
            )
        self._is_profiling = True
        try:
            text = await asyncio.to_thread(profile, seconds, self._stop)
        finally:
            self._is_profiling = False
        return Reply(200, _TEXT, text.encode(errors="replace"))

    def end(self) -> None:
        self._stop.set()
