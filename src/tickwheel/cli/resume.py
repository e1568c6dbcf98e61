from __future__ import annotations

from typing import Any

import click

from tickwheel.cli.bulk import bulk_options, change_all, is_bulk
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
from tickwheel.cli.output import print_answer, print_json, printable

__all__ = ["command"]


@click.command("resume")
@click.argument("key", required=False, shell_complete=complete_key)
@scope_option
@bulk_options
@by_option
@generation_option
@store_option
@json_option
def command(
    *,
    key: str | None,
    scope: str | None,
    by: str | None,
    if_generation: int | None,
    store: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """
    End the pause of the job KEY. The job is due at its old due time, or at once if this time has passed.

    With a filter, the pauses of all matching jobs end. With --scope, the jobs of a handler, a queue or a target may run
    again.
    """
    many = is_bulk(chosen, key, scope, if_generation)
    if not many:
        check_scope(key, scope, if_generation)
    with opened(store, by=by) as scheduler:
        if many:
            change_all(scheduler, "resume", chosen, as_json=as_json)
            return
        if scope is None:
            print_answer(key or "", scheduler.resume(key or "", if_generation=if_generation), as_json=as_json)
            return
        was_paused = scheduler.resume_scope(scope)
    if as_json:
        print_json({"was_paused": was_paused})
    else:
        click.echo(f"resumed {printable(scope)}" if was_paused else f"{printable(scope)} was not paused")
