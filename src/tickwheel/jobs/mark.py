"""
The mark in the `error` field of a dead letter, which shows that the job is being moved to another store.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tickwheel.jobs.model import Job, Pause, State

__all__ = ["Mark", "restored", "unpaused"]

_MARK: Final = "on its way to another store; if no 'tickwheel migrate' runs, run it again: "


class Mark(NamedTuple):
    source: str
    target: str
    state: str
    error: str | None
    generation: int = 0
    pause: tuple[int, str, str] | None = None

    @classmethod
    def on(cls, job: Job, source: str, target: str) -> Mark:
        pause = None if job.pause is None else (job.pause.at, job.pause.by, job.pause.note)
        return cls(source, target, job.state.value, job.error, pause=pause)

    @classmethod
    def of(cls, job: Job) -> Mark | None:
        if job.state is not State.DEAD or not (job.error or "").startswith(_MARK):
            return None
        return cls(*json.loads((job.error or "").removeprefix(_MARK)))

    def text(self) -> str:
        # The mark of a job without a pause has the format of earlier versions, which had no pauses, so that each
        # version reads the other's marks.
        return _MARK + json.dumps(self if self.pause else self[:-1])


def restored(parked: Job) -> Job:
    mark: Any = Mark.of(parked)
    pause = mark.pause and Pause(*mark.pause)
    return replace(parked, state=State(mark.state), error=mark.error, pause=pause)


def unpaused(parked: Job) -> Job:
    mark: Any = Mark.of(parked)
    return replace(parked, error=mark._replace(pause=None).text())
