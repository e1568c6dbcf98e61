from __future__ import annotations

import time

import click

from tickwheel.cli.documents import record_document
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import local_time, print_json, print_rows
from tickwheel.cli.values import DurationRange
from tickwheel.scheduler import HistoryRecord

__all__ = ["command"]

_COLUMNS = ("at", "act", "job, scope or node", "by", "more")


@click.command("acts")
@click.option(
    "--since", type=DurationRange(1.0), default=600.0, show_default="10m", help="How far to look back, such as 2h."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Maximum number.")
@store_option
@json_option
def command(*, since: float, limit: int, store: str, as_json: bool) -> None:
    """
    Show acts of people, tokens and processes, bulk changes, deploys, deaths of nodes and takeovers, newest first.
    """
    with opened(store) as scheduler:
        records = scheduler.acts(time.time() - since, limit=limit)
    if as_json:
        for record in records:
            print_json(record_document(record))
        return
    if not records:
        click.echo("nothing happened in that time, as far as it is kept", err=True)
    print_rows(_COLUMNS, map(_row, records))


def _row(record: HistoryRecord) -> tuple[object, ...]:
    was = record.was_due_at
    moved = None if was is None else f"from {local_time(was)} to {local_time(record.due_at)}"
    more = "; ".join(filter(None, (moved, record.note, record.error)))
    return local_time(record.at), record.outcome, record.key, record.by, more
