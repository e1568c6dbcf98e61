from __future__ import annotations

from typing import Any

import click

from tickwheel.cli.bulk import bulk_options, change_all, is_bulk
from tickwheel.cli.documents import pause_document
from tickwheel.cli.options import (
    by_option,
    check_scope,
    complete_key,
    generation_option,
    json_option,
    opened,
    scope_option,
    store_option,
)
from tickwheel.cli.output import pause_text, print_answer, print_json, printable

__all__ = ["command"]


@click.command("pause")
@click.argument("key", required=False, shell_complete=complete_key)
@scope_option
@bulk_options
@click.option("--note", default="", help="Why it is paused, for others to read.")
@by_option
@generation_option
@store_option
@json_option
def command(
    *,
    key: str | None,
    scope: str | None,
    note: str,
    by: str | None,
    if_generation: int | None,
    store: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """
    Pause the pending job KEY until it is resumed. A recurring job can also be paused while it runs.

    With a filter, the currently matching jobs are paused. With --scope, all jobs of a handler, a queue or a target wait
    on all nodes; running jobs continue.
    """
    many = is_bulk(chosen, key, scope, if_generation)
    if not many:
        check_scope(key, scope, if_generation)
    with opened(store, has_targets=scope is not None, by=by) as scheduler:
        if many:
            change_all(scheduler, "pause", chosen, as_json=as_json, note=note)
            return
        if scope is None:
            print_answer(key or "", scheduler.pause(key or "", note=note, if_generation=if_generation), as_json=as_json)
            return
        pause = scheduler.pause_scope(scope, note=note)
    if as_json:
        print_json(pause_document(pause))
    else:
        click.echo(f"paused {printable(f'{scope}, {pause_text(pause)}')}")
