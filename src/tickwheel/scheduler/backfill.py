"""
Internal: runs a recurring job again for a range of the past, with one job for each instant.

The jobs are set in order, a thousand per commit. Their keys name the recurring job and the instant. A job that still
waits or runs is not set again, so an interrupted backfill can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from tickwheel.host.backend import Jobs
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Job, Outcome, record
from tickwheel.jobs.recurrence import Recurrence
from tickwheel.jobs.requests import SetRequest, flag
from tickwheel.jobs.verbs import SetJobs
from tickwheel.typing import Instant

__all__ = ["BACKFILL_MAX", "Backfill", "BackfillRange", "backfilled"]

BACKFILL_MAX: Final = 10_000
_CHUNK: Final = 1_000


@record
class Backfill:
    """
    The answer to a backfill.

    Attributes:
        runs: Number of instants, up to the limit.
        created: Number of jobs that were set; the remaining instants already have a live job. None in a dry run.
        next_at: The first instant that the limit excluded, in seconds since the epoch, to pass as the next `since`.
            None if no instant is left.
    """

    runs: int
    created: int
    next_at: float | None


@dataclass(frozen=True, slots=True)
class BackfillRange:
    since: Instant
    until: Instant
    rate: float | None = None
    limit: int = 1_000
    dry_run: bool = False


def backfilled(client: Jobs, key: str, asked: BackfillRange) -> Backfill:
    limit = checks.check_count("limit", asked.limit, BACKFILL_MAX)
    step = 0.0 if asked.rate is None else 1 / checks.check_rate(asked.rate)
    is_dry = flag("dry_run", asked.dry_run)
    job = client.get(checks.check_key(key))
    if job is None or job.recurrence is None:
        raise InvalidJobError("key", key, "a backfill is of a recurring job: name one that is there")
    series = Recurrence.from_text(job.recurrence)
    ends = job.due_at - series.shift_ms(job.key)  # whatever the job's state, it fires this instant itself
    since, until = (checks.at_ms(getattr(asked, name), ends, name) for name in ("since", "until"))
    if not since < until <= ends:
        remedy = f"name a range of the past, from since= on to until=, at most {_text(ends)}, when its next run is due"
        raise InvalidJobError("until", asked.until, remedy)
    runs = list(islice(_runs(series, since, until), limit + 1))
    next_at = runs.pop() / 1000 if len(runs) > limit else None
    if is_dry:
        return Backfill(len(runs), 0, next_at)
    created = 0
    for start in range(0, len(runs), _CHUNK):
        chunk = enumerate(runs[start : start + _CHUNK], start)
        answers = client.submit(SetJobs([_request(job, run, number * step) for number, run in chunk])).result()
        created += sum(answer.outcome is Outcome.CREATED for answer in answers)
    return Backfill(len(runs), created, next_at)


def _runs(series: Recurrence, since: int, until: int) -> Iterator[int]:
    run = series.nominal(since - 1)
    while run is not None and run < until:
        yield run
        run = series.nominal(run)


def _request(job: Job, run: int, delay: float) -> SetRequest:
    key = checks.check_key(f"{job.key}@{_text(run)}")
    return SetRequest(
        key,
        delay=delay,
        payload=json.loads(job.payload),
        target=job.target,
        handler=job.handler,
        retry=job.retry,
        if_generation=0,  # mode="keep" would replace a running job
    )


def _text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
