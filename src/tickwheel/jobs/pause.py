"""
The pause of a job, or of a scope: all jobs of a handler, of a queue or of a target, or all that there are.

What is paused is pending and not due, whatever its instant, until somebody resumes it.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from tickwheel.jobs.attempt_status import AttemptStatus
from tickwheel.jobs.history import Actor
from tickwheel.jobs.record import record

__all__ = ["EVERYTHING", "Pause", "Resume", "SetPause", "scope_over"]

EVERYTHING: Final = "*"
"""The scope of all jobs."""


@record
class Pause:
    """
    A pause: when it began, and what was said of it.

    Attributes:
        at: When, in ms since the epoch.
        by: The name of who paused it: a process, or the token of a service.
        note: Why, in words; "" where nothing was said.
        scope: What is paused: "" for the one job, "TARGET:HANDLER" for the jobs of a handler, a queue or an address,
            "TARGET" for those of a target, "*" for all.
    """

    at: int
    by: str
    note: str = ""
    scope: str = ""


def scope_over(target: str, handler: str, paused: Container[str]) -> str | None:
    """
    Return the widest of the *paused* scopes that has the jobs of that *target* and *handler*, or None.
    """
    return next((scope for scope in (EVERYTHING, target, f"{target}:{handler}") if scope in paused), None)


@record
class SetPause:
    """
    Pause a pending job. Answers PAUSED, TOO_LATE, NOT_FOUND or WRONG_GENERATION.

    It keeps its instant, generation and attempts, and is due nowhere; a set, a move, a retry and a next run keep the
    pause. One whose attempt is counted is pending if *over* says that it does not start. One that recurs is paused
    after its start, too: this run goes on, and what follows it is paused. One that is paused gets the new words.

    Attributes:
        key: Of the job.
        by: The name of who pauses it.
        note: Why.
        if_generation: Only if the job has this generation.
        over: As in `Cancel`.
    """

    key: str
    by: str
    note: str = ""
    if_generation: int | None = None
    over: AttemptStatus | None = None
    actor: Actor | None = None


@record
class Resume:
    """
    End the pause of a job, which is due again at its instant. Answers RESUMED, NOT_FOUND or WRONG_GENERATION.

    It keeps its generation. KEPT: it was not paused.
    """

    key: str
    if_generation: int | None = None
    actor: Actor | None = None
