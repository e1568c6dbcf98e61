"""
Internal: the stacks of the process's threads and tasks, and a sampling profile.

The profiler reads the frames of each thread a hundred times per second, which costs the process about one percent. Its
output is lines of "collapsed stacks", which every flame graph tool reads.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Final

__all__ = ["profile", "stacks"]

_INTERVAL_S: Final = 0.01
_DEPTH_MAX: Final = 100
_STACKS_MAX: Final = 10_000
"""Maximum number of distinct stacks, which limits the memory of a profile."""
_TASKS_MAX: Final = 1_000
_WAITING: Final = frozenset({"wait", "acquire", "select", "poll", "get", "sleep", "_wait", "wait_for"})


def stacks(tasks: Iterable[asyncio.Task[Any]] = ()) -> str:
    """
    Return the stacks of all threads and of at most a thousand *tasks*, each with the name of the thread or task.
    """
    names = {thread.ident: f"{thread.name}{' (daemon)' if thread.daemon else ''}" for thread in threading.enumerate()}
    out = io.StringIO()
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  the documented way
        out.write(f"thread {names.get(ident, ident)}\n")
        out.writelines(traceback.format_stack(frame, _DEPTH_MAX))
        out.write("\n")
    known = list(tasks)
    for task in known[:_TASKS_MAX]:
        task.print_stack(limit=_DEPTH_MAX, file=out)
        out.write("\n")
    if len(known) > _TASKS_MAX:
        out.write(f"and {len(known) - _TASKS_MAX} tasks more\n")
    return out.getvalue()


def profile(seconds: float, stop: threading.Event) -> str:
    """
    Sample all other threads for *seconds*, or until *stop*. Return the number of samples of each stack.

    A line is `thread;outermost;...;innermost count`. Waiting threads are included, with a last frame `(waiting)`.
    """
    met: Counter[tuple[str, ...]] = Counter()
    mine = threading.get_ident()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stop.wait(_INTERVAL_S):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  the documented way
            if ident != mine:
                stack = (names.get(ident, str(ident)), *_names(frame))
                met[stack if stack in met or len(met) < _STACKS_MAX else ("(others)",)] += 1
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in met.most_common())


def _names(frame: FrameType) -> list[str]:
    names = ["(waiting)"] if frame.f_code.co_name in _WAITING else []
    for place, _line in islice(traceback.walk_stack(frame), _DEPTH_MAX - len(names)):
        names.append(f"{Path(place.f_code.co_filename).stem}.{place.f_code.co_qualname}")
    return names[::-1]
