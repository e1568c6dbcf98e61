"""
Output of the commands: tables, tab-separated lines, or JSON lines. Control sequences of terminals are escaped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, tzinfo
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from tickwheel.cli.documents import job_document
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.jobs.model import STOPPED, Answer, Job, Outcome, Pause
from tickwheel.scheduler import Progress

__all__ = [
    "counted",
    "live",
    "local_time",
    "pause_text",
    "print_answer",
    "print_job",
    "print_json",
    "print_rows",
    "printable",
    "progress",
    "progress_text",
    "table",
]

_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Characters that JSON does not escape, although they end a line for Python and other programs."""
_REFUSALS = {
    Outcome.NOT_FOUND: (ExitCode.NOT_FOUND, "no job has the key {key!r}: it was never set, has run, or was cancelled"),
    Outcome.TOO_LATE: (ExitCode.TOO_LATE, "job {key!r} is running: it can be neither moved nor cancelled any more"),
}


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def local_time(ms: int, zone: tzinfo | None = None) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone).isoformat(sep=" ", timespec="milliseconds")


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")).translate(_LINE_ENDS))


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> None:
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(printable(str(cell)) for cell in row))
        return
    Console().print(table(columns, rows, right=right))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> Table:
    flush_right = set(right)
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        is_right = column in flush_right  # never wrap a number; wrap names instead
        made.add_column(column, justify="right" if is_right else "left", overflow="fold", no_wrap=is_right)
    for row in rows:
        made.add_row(*(Text(printable(str(cell))) for cell in row))
    return made


def live(view: Callable[[], Sequence[Table]], every_s: float, *, is_once: bool) -> None:
    def parts() -> Group:
        return Group(*(part for each in view() for part in (each, "")))

    if is_once:
        Console().print(parts())
        return
    with Live(parts(), auto_refresh=False, screen=True) as screen, suppress(KeyboardInterrupt):
        while True:
            time.sleep(every_s)
            screen.update(parts(), refresh=True)


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    with Bar(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def print_job(job: Job, progress: Progress | None, *, as_json: bool) -> None:
    if as_json:
        print_json(job_document(job))
        return
    pause = job.pause
    facts: dict[str, Any] = {
        "key": job.key,
        "generation": job.generation,
        "state": job.state.value,
        "progress": progress and progress_text(progress),
        "lacks_handler": job.lacks_handler,
        "awaits_worker": job.awaits_worker,
        "pause": pause and f"{pause.scope} {pause_text(pause)}".lstrip(),
        "due_at": local_time(job.due_at),
        "target": job.target,
        "handler": job.handler,
        "payload": json.dumps(json.loads(job.payload), ensure_ascii=False),
        "attempt": job.attempt,
        "attempts": job.retry.attempts,
        "recurrence": job.recurrence,
        "manifest": job.manifest,
        "expires_at": _expiry_text(job),
        "error": job.error,
        "raised_in": job.raised_in,
        "trace": job.trace,
    }
    print_rows(("", ""), [(name, value) for name, value in facts.items() if value not in (None, "")])


def _expiry_text(job: Job) -> str | None:
    if job.expires_at == STOPPED:
        return "it was asked to stop"
    return None if job.expires_at is None else local_time(job.expires_at)


def progress_text(progress: Progress) -> str:
    return f"{progress.fraction:.0%}" + (f": {printable(progress.note)}" if progress.note else "")


def pause_text(pause: Pause) -> str:
    return f"since {local_time(pause.at)}, by {pause.by}: {pause.note}".removesuffix(": ")


def print_answer(key: str, answer: Answer, *, as_json: bool) -> None:
    if answer.outcome is Outcome.WRONG_GENERATION:
        found = "there is none" if answer.job is None else f"it has {answer.job.generation}"
        message = f"job {key!r} has not the generation that was asked for, {found}: read it again before you decide"
        raise Refused(ExitCode.WRONG_GENERATION, message)
    if answer.outcome in _REFUSALS:
        code, text = _REFUSALS[answer.outcome]
        raise Refused(code, text.format(key=key))
    if as_json:
        print_json({"outcome": answer.outcome.value, "job": answer.job and job_document(answer.job)})
        return
    job = None if answer.outcome is Outcome.CANCELLED else answer.job
    due = f", due {local_time(job.due_at)}, generation {job.generation}" if job else ""
    click.echo(f"{answer.outcome.value} {printable(key)}{due}")
