"""
Requests of nodes to withdraw claimed attempts, in one hash.

An owner makes a job pending again, or answers that its attempt has started. The name of a field is
`generation/due_at/attempt`; its value is the time, the answer and the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tickwheel.jobs.model import Job, State
from tickwheel.jobs.rules import REQUESTS_KEPT_MS, holds

__all__ = ["report_started", "request", "requests", "started"]

_OPEN, _STARTED = b"0", b"1"

_Call = Callable[..., Any]


def request(call: _Call, place: str, jobs: Sequence[Job], now: int) -> None:
    known = call("HMGET", place, *map(_attempt, jobs))
    open_ = [job for job, fact in zip(jobs, known, strict=True) if fact is None or not _says_started(fact)]
    if open_:
        call("HSET", place, *_facts(open_, _OPEN, now))


def requests(call: _Call, place: str, now: int) -> list[Job]:
    jobs: list[Job] = []
    old: list[bytes] = []
    facts = call("HGETALL", place)
    for attempt, fact in zip(facts[::2], facts[1::2], strict=True):
        asked_at, answer, key = bytes(fact).split(b" ", 2)
        if int(asked_at) < now - REQUESTS_KEPT_MS:
            old.append(attempt)
        elif answer == _OPEN:
            generation, due_at, number = map(int, bytes(attempt).split(b"/"))
            if holds(number, now - int(asked_at)):
                jobs.append(Job(key.decode(), generation, due_at, attempt=number, state=State.RUNNING))
    if old:
        call("HDEL", place, *old)
    return jobs


def report_started(call: _Call, place: str, jobs: Sequence[Job], now: int) -> None:
    if jobs:
        call("HSET", place, *_facts(jobs, _STARTED, now))


def started(call: _Call, place: str, jobs: Sequence[Job]) -> set[int]:
    facts = call("HMGET", place, *map(_attempt, jobs)) if jobs else []
    return {job.generation for job, fact in zip(jobs, facts, strict=True) if fact is not None and _says_started(fact)}


def _says_started(fact: Any) -> bool:
    return bytes(fact).split(b" ", 2)[1] == _STARTED


def _facts(jobs: Sequence[Job], answer: bytes, now: int) -> Iterator[bytes]:
    for job in jobs:
        yield _attempt(job)
        yield b"%d %b %b" % (now, answer, job.key.encode())


def _attempt(job: Job) -> bytes:
    return b"%d/%d/%d" % (job.generation, job.due_at, job.attempt)
