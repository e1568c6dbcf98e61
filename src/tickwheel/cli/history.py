from __future__ import annotations

import click

from tickwheel.cli.documents import record_document
from tickwheel.cli.options import json_option, key_argument, opened, store_option
from tickwheel.cli.output import local_time, print_json, print_rows, printable
from tickwheel.scheduler import HistoryRecord

__all__ = ["command"]

_COLUMNS = ("ended", "outcome", "attempt", "late ms", "took ms", "by", "error or note")


@click.command("history")
@key_argument
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Maximum number.")
@click.option("--before", type=click.IntRange(1), metavar="N", help="Only records with numbers below this one.")
@click.option("--traceback", "has_traceback", is_flag=True, help="Also show where each attempt failed.")
@store_option
@json_option
def command(*, key: str, limit: int, before: int | None, has_traceback: bool, store: str, as_json: bool) -> None:
    """
    Show the past of the jobs of KEY, newest first: failed attempts, runs, dead letters, and who set the job.

    If there may be older records, stderr shows the number to pass as --before. With --json, each record has its number.
    """
    with opened(store) as scheduler:
        records = scheduler.history(key, before=before, limit=limit)
    if as_json:
        for record in records:
            print_json(record_document(record))
        return
    if not records:
        nothing = f"nothing is kept of {key!r}: it was never set, or has not failed"
        click.echo(nothing if before is None else f"nothing of {key!r} is kept from before {before}", err=True)
    print_rows(_COLUMNS, map(_row, records), right=("attempt", "late ms", "took ms"))
    if has_traceback:
        for record in records:
            if record.traceback is not None:
                click.echo(f"\nattempt {record.attempt} of {local_time(record.at)}")
                click.echo("\n".join(printable(line) for line in record.traceback.splitlines()))
    if len(records) == limit:
        click.echo(f"there may be more: go on with --before {records[-1].number}", err=True)


def _row(record: HistoryRecord) -> tuple[object, ...]:
    begun_at, took_ms = record.begun_at, record.took_ms
    return (
        local_time(record.at),
        record.outcome,
        record.attempt or "",
        "" if begun_at is None else f"{begun_at - record.due_at:.1f}",
        "" if took_ms is None else f"{took_ms:.1f}",
        record.by,
        record.error or record.note or "",
    )
