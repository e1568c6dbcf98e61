from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import click

from tickwheel.cli.documents import job_document, record_document
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, key_argument, opened, store_option
from tickwheel.cli.output import local_time, print_json, printable, progress_text
from tickwheel.cli.values import DurationRange
from tickwheel.scheduler import HistoryRecord, Job, Progress, Scheduler, State

__all__ = ["command"]

_RECORDS = 100


@click.command("watch")
@key_argument
@click.option("--every", type=DurationRange(0.1), default=1.0, show_default="1s", help="The time between polls.")
@store_option
@json_option
def command(*, key: str, every: float, store: str, as_json: bool) -> None:
    """
    Show each change of the job KEY, one per line, until the job is dead or gone, or you press Ctrl-C.
    """
    with opened(store) as scheduler:
        for job, progress, records in _changes(scheduler, key, every):
            if as_json:
                documents = [record_document(record) for record in records]
                far = progress and progress._asdict()
                print_json({"job": None if job is None else job_document(job), "progress": far, "records": documents})
                continue
            for record in records:
                click.echo(_past(record))
            click.echo("gone: it has run, or was cancelled" if job is None else _present(job, progress))


def _changes(
    scheduler: Scheduler, key: str, every_s: float
) -> Iterator[tuple[Job | None, Progress | None, Sequence[HistoryRecord]]]:
    seen = max((record.number for record in scheduler.history(key, limit=1)), default=0)
    job = scheduler.get(key)
    before: tuple[Job | None, Progress | None] = job, None
    if job is None:
        raise Refused(ExitCode.NOT_FOUND, f"no job has the key {key!r}: it was never set, has run, or was cancelled")
    yield job, None, ()
    while job is not None and job.state is not State.DEAD:
        time.sleep(every_s)
        job = scheduler.get(key)
        progress = scheduler.progress(key) if job is not None and job.state is State.RUNNING else None
        records = [record for record in scheduler.history(key, limit=_RECORDS) if record.number > seen]
        if records or (job, progress) != before:
            yield job, progress, records[::-1]
        seen = max((record.number for record in records), default=seen)
        before = job, progress


def _past(record: HistoryRecord) -> str:
    begun_at, took_ms = record.begun_at, record.took_ms
    facts = (
        record.attempt and f"attempt {record.attempt}",
        begun_at is not None and f"late {begun_at - record.due_at:.1f} ms",
        took_ms is not None and f"took {took_ms:.1f} ms",
        record.by and f"{'on' if record.attempt else 'by'} {record.by}",
        record.error,
    )
    what = ", ".join(printable(fact) for fact in facts if isinstance(fact, str) and fact)
    return f"{local_time(record.at)} {record.outcome}" + (f": {what}" if what else "")


def _present(job: Job, progress: Progress | None) -> str:
    state = "paused" if job.is_paused else job.state.value
    if progress is not None:
        state += f" {progress_text(progress)}"
    return f"{state}, due {local_time(job.due_at)}, attempt {job.attempt} of {job.retry.attempts}"
