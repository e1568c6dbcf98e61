"""
Counts the Python functions that one job runs through, from its set until it is settled, and their files.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

import tickwheel
from benchmarks.model import Measure
from tickwheel.scheduler import Scheduler

__all__ = ["FILES", "WORK", "path_of_a_job"]

WORK: Final = "one job: calls"
FILES: Final = "one job: files"
_AHEAD_S: Final = 0.3
_QUIET_S: Final = 0.8
"""Seconds without a job before the measured one, so that all threads of the scheduler are asleep when it is set."""
_ROOT: Final = str(Path(tickwheel.__file__).parent)
_INLINE: Final = ("<genexpr>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>")
"""Names of functions within an expression. They are not counted, because some versions of Python inline them."""


def path_of_a_job(url: str) -> list[Measure]:
    """
    Set one job with a delay and let it fire.

    Count the calls of tickwheel's functions in all threads, and the files of these functions.
    """
    calls: Counter[str] = Counter()
    ended = threading.Event()
    is_counting = False

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if is_counting and event == "call" and code.co_filename.startswith(_ROOT) and code.co_name not in _INLINE:
            calls[code.co_filename] += 1

    threading.setprofile(note)  # for the threads that the scheduler starts
    try:
        with Scheduler(url) as scheduler:
            scheduler.handler("nothing")(lambda _: ended.set())
            for turn in range(2):  # the first turn starts the threads
                ended.clear()
                time.sleep(_QUIET_S)
                is_counting = turn == 1
                sys.setprofile(note)
                scheduler.set(f"{turn}", delay=_AHEAD_S, handler="nothing")
                sys.setprofile(None)
                ended.wait()
                time.sleep(_AHEAD_S)  # long enough for the job to be settled
                is_counting = False
    finally:
        threading.setprofile(None)
    return [Measure(WORK, calls.total(), "calls"), Measure(FILES, len(calls), "files")]
