"""
A job as a row: the columns of `Job`, in its order, for every store that speaks SQL.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from tickwheel.scheduler.model import USUAL_RETRY, Job, Pause, RetryPolicy, State

__all__ = [
    "ASIDE",
    "CODES",
    "PAUSED",
    "PLACE",
    "code_of",
    "in_int64",
    "job_of",
    "pause_of",
    "pause_text",
    "paused_job_of",
    "row_of",
    "successor",
    "text_of",
]

CODES: Final = {State.PENDING: 0, State.RUNNING: 1, State.DEAD: 2}
ASIDE: Final = 3
"""The code of a pending job that lacks its handler; what is left after a division by three is that of its state."""
PAUSED: Final = 6
"""That of a pending job that is paused."""
PLACE: Final = attrgetter("due_at", "generation")
"""The place of a job in the order of what is due."""
_STATES: Final = tuple(CODES) * 3
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000


def job_of(row: tuple[Any, ...]) -> Job:
    """
    Return the job that *row* holds.
    """
    (
        key,
        generation,
        due_at,
        payload,
        target,
        handler,
        attempt,
        retry,
        expires_at,
        recurrence,
        state,
        error,
        trace,
        since,
    ) = row
    return Job(
        key,
        generation,
        due_at,
        payload,
        target,
        handler,
        attempt,
        USUAL_RETRY if retry is None else _retry_of(retry),
        expires_at,
        recurrence,
        _STATES[state],
        error,
        trace,
        since,
        state == ASIDE,
    )


def paused_job_of(row: tuple[Any, ...]) -> Job:
    """
    Return the job that *row* holds, with its pause behind it: what is read by key may be paused, what is due never is.
    """
    *rest, pause = row
    job = job_of(tuple(rest))
    return job if pause is None else replace(job, pause=pause_of(pause))


def code_of(job: Job) -> int:
    """
    Return the number that represents the state of *job*.
    """
    if job.lacks_handler:
        return ASIDE
    return PAUSED if job.is_paused else CODES[job.state]


def row_of(job: Job) -> tuple[Any, ...]:
    """
    Return the row that holds *job*.
    """
    return (
        job.key,
        job.generation,
        job.due_at,
        job.payload,
        job.target,
        job.handler,
        job.attempt,
        None if job.retry is USUAL_RETRY or job.retry == USUAL_RETRY else _retry_text(job.retry),
        job.expires_at,
        job.recurrence,
        code_of(job),
        None if job.error is None else text_of(job.error),
        job.trace,
        job.first_set_at,
    )


def pause_of(text: str) -> Pause:
    """
    Return the pause that *text* holds.
    """
    return Pause(*json.loads(text))


def pause_text(job: Job) -> str | None:
    """
    Return the text that holds the pause of *job*, or None where it has none.
    """
    pause = job.pause
    return None if pause is None else json.dumps([pause.at, pause.by, pause.note], separators=(",", ":"))


def text_of(error: str | None) -> str | None:
    r"""
    Return *error* as any database takes it: NUL as `\x00`, and lone surrogates as `\udc80`.

    An exception's message may hold both, and must not keep a firing from being settled.
    """
    return error and error.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def in_int64(instant: int | None, otherwise: int = 0) -> int:
    """
    Return *instant* as near as int64 comes to it, or *otherwise* for None.
    """
    return otherwise if instant is None else min(max(instant, -(2**63)), 2**63 - 1)


def successor(prefix: str) -> str | None:
    """
    Return the least string, by code points, that is above everything that starts with *prefix*; None if there is none.
    """
    while prefix:
        next_point = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if next_point <= sys.maxunicode:
            return prefix + chr(_AFTER_SURROGATES if next_point == _FIRST_SURROGATE else next_point)
    return None


@lru_cache(maxsize=1024)
def _retry_of(text: str) -> RetryPolicy:
    attempts, kind, base_ms, max_ms, jitter, waits_ms = json.loads(text)
    return RetryPolicy(attempts, kind, base_ms, max_ms, jitter, tuple(waits_ms))


@lru_cache(maxsize=1024)
def _retry_text(policy: RetryPolicy) -> str:
    return json.dumps(
        [policy.attempts, policy.kind, policy.base_ms, policy.max_ms, policy.jitter, policy.waits_ms],
        separators=(",", ":"),
    )
