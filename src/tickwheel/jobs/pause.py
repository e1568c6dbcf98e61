from __future__ import annotations

from collections.abc import Container
from typing import Final

from tickwheel.jobs.attempt_status import AttemptStatus
from tickwheel.jobs.history import Actor
from tickwheel.jobs.once import Once
from tickwheel.jobs.record import record

__all__ = ["EVERYTHING", "Pause", "Resume", "SetPause", "scope_over"]

EVERYTHING: Final = "*"
"""The scope of all jobs."""


@record
class Pause:
    """
    A pause: its time, author and reason. A paused job is pending, but does not become due.

    Attributes:
        at: Start in ms since the epoch.
        by: Name of the author: a process, or the token of a service.
        note: The reason; "" if none was given.
        scope: "" for one job, "TARGET:HANDLER" for the jobs of a handler, a queue or a URL, "TARGET" for the jobs of a
            target, "*" for all jobs.
    """

    at: int
    by: str
    note: str = ""
    scope: str = ""


def scope_over(target: str, handler: str, paused: Container[str]) -> str | None:
    """
    Return the widest of those *paused* scopes that include the jobs of *target* and *handler*, or None.
    """
    return next((scope for scope in (EVERYTHING, target, f"{target}:{handler}") if scope in paused), None)


@record
class SetPause:
    """
    Pause a pending job. The answer is PAUSED, TOO_LATE, NOT_FOUND or WRONG_GENERATION.

    The job keeps its due time, generation and attempts, and stays paused after a set, a move, a retry or a next run. If
    an attempt is counted, the job is paused only if *over* (the attempt's status) says that the attempt never starts. A
    recurring job can be paused even if a run has started. This run completes, and the pause applies to the next runs.
    If the job is already paused, `by` and `note` replace the earlier author and note. The other fields are as in `Set`.
    """

    key: str
    by: str
    note: str = ""
    if_generation: int | None = None
    over: AttemptStatus | None = None
    actor: Actor | None = None
    once: Once | None = None


@record
class Resume:
    """
    End a job's pause, so that it can fire again. The answer is RESUMED, KEPT, NOT_FOUND or WRONG_GENERATION.

    The job keeps its due time and generation. The answer is KEPT if the job was not paused.
    """

    key: str
    if_generation: int | None = None
    actor: Actor | None = None
    once: Once | None = None
