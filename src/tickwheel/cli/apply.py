from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, BinaryIO, Final, TypeVar

import click

from tickwheel.cli import interchange
from tickwheel.cli.documents import job_document
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.files import name_of, naming, text_of
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import local_time, print_json, printable
from tickwheel.jobs.declaration import check_schedule
from tickwheel.jobs.definition import Definition
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.rule_text import rule_text, seconds
from tickwheel.scheduler import Declared, DeclaredJob, Job, Outcome, Scheduler, SetRequest

__all__ = ["command", "declare", "declared", "document", "manifest_option", "show"]

_F = TypeVar("_F", bound=Callable[..., Any])
_SIGNS: Final = {Outcome.CREATED: "+", Outcome.CHANGED: "~", Outcome.REPLACED: "~", Outcome.CANCELLED: "-"}


def manifest_option(function: _F) -> _F:
    text = "Declare the file as this manifest: jobs that it does not have any more are cancelled."
    return click.option("--manifest", metavar="NAME", help=text)(function)


@click.command("apply")
@click.argument("file", type=click.File("rb"))
@click.option("--manifest", metavar="NAME", required=True, help="Name of the manifest.")
@click.option("--revision", type=int, metavar="N", help="Number of the build. An older build changes nothing.")
@click.option("--rollback", is_flag=True, help="Go back to an older revision.")
@click.option("--allow-empty", is_flag=True, help="Let a file without jobs cancel all jobs of the manifest.")
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@store_option
@json_option
def command(*, file: BinaryIO, manifest: str, store: str, as_json: bool, **options: Any) -> None:
    """
    Make the recurring jobs of a manifest match FILE (- reads stdin).

    FILE has one job per line, as 'export' writes it. It may also be a JSON list of jobs, or a table whose name ends in
    .csv. Jobs of the manifest that are missing in FILE are cancelled, but running attempts complete.
    """
    has_columns = name_of(file).endswith(".csv")
    schedules = [
        _schedule(number, line, manifest, has_columns=has_columns)
        for number, line in _lines(text_of(file), has_columns=has_columns)
    ]
    declare(schedules, manifest, store, as_json=as_json, **options)


def declare(schedules: Sequence[SetRequest], manifest: str, store: str, *, as_json: bool, **options: Any) -> None:
    with opened(store, has_to_exist=False, has_targets=True) as scheduler:
        answer = declared(scheduler, schedules, manifest, **options)
    if as_json:
        print_json(document(answer))
    else:
        show(answer)


def declared(scheduler: Scheduler, schedules: Sequence[SetRequest], manifest: str, **options: Any) -> Declared:
    try:
        return scheduler.declare(schedules, manifest, **options)  # type: ignore[arg-type]  # `declare` checks them
    except (InvalidJobError, TypeError) as error:
        raise Refused(ExitCode.USAGE, str(error)) from None


def show(answer: Declared) -> None:
    manifest = answer.manifest
    if answer.outcome is Outcome.SUPERSEDED:
        click.echo(f"superseded: revision {answer.revision} of {printable(manifest)} was declared; see --rollback")
        return
    for job in answer.jobs:
        for line in _difference(job):
            click.echo(printable(line))
    counts = Counter(job.outcome.value for job in answer.jobs)
    click.echo(
        f"{printable(manifest)}: {', '.join(f'{number} {word}' for word, number in counts.items()) or 'no jobs'}"
    )


def _lines(text: str, *, has_columns: bool) -> Iterable[interchange.Line]:
    if has_columns:
        return interchange.csv_lines(io.StringIO(text, newline=""))
    if not text.lstrip().startswith("["):
        return interchange.json_lines(text.split("\n"))
    try:
        jobs = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(ExitCode.USAGE, f"the file is not a JSON list: {error}") from None
    for number, job in enumerate(jobs, 1):
        if not isinstance(job, dict):
            raise Refused(ExitCode.USAGE, f"job {number} is {job!r}: write an object with its key")
    return enumerate(jobs, 1)


def _schedule(number: int, line: dict[str, Any], manifest: str, *, has_columns: bool) -> SetRequest:
    with naming(number, has_columns=has_columns):
        request = interchange.request_of(line)
        check_schedule(request, manifest)
        return request


def _difference(job: DeclaredJob) -> Iterator[str]:
    sign = _SIGNS.get(job.outcome)
    if sign is None:
        if job.outcome is not Outcome.UNCHANGED:
            yield f"  {job.key}: {job.outcome.value}"
        return
    now, before = job.job, job.before
    yield f"{sign} {job.key}: {_rule(now or before)}"
    if before is not None and now is not None:
        old, new = _facts(before), _facts(now)
        for name, value in new.items():
            if value != old[name]:
                yield f"    {name}: {old[name]} -> {value}"


def _rule(job: Job | None) -> str:
    if job is None:
        return "it was there, and is gone"
    return "once" if job.recurrence is None else rule_text(Definition.at_last(job).series.to_text(), local_time)


def _facts(job: Job) -> dict[str, str]:
    retry, rule, length = job.retry, _rule(job), job.expires_at and job.expires_at - job.due_at
    payload, target, handler = job.payload, job.target, job.handler
    if job.recurrence is not None:
        _, payload, target, handler, retry, length, _ = Definition.at_last(job)
    return {
        "rule": rule,
        "due": local_time(job.due_at),
        "payload": json.dumps(json.loads(payload), ensure_ascii=False),
        "target": target,
        "handler": handler,
        "retry": ", ".join(f"{each.name} {getattr(retry, each.name)}" for each in fields(retry)),
        "expires": "never" if length is None else f"after {seconds(length)}",
        "manifest": job.manifest or "none",
    }


def document(answer: Declared) -> dict[str, Any]:
    return {
        "manifest": answer.manifest,
        "outcome": answer.outcome.value,
        "revision": answer.revision,
        "jobs": [
            {
                "key": each.key,
                "outcome": each.outcome.value,
                "job": each.job and job_document(each.job),
                "before": each.before and job_document(each.before),
            }
            for each in answer.jobs
        ],
    }
