from __future__ import annotations

import click

from tickwheel.cli.documents import explanation_document
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, key_argument, opened, store_option
from tickwheel.cli.output import local_time, print_json, printable

__all__ = ["command"]


@click.command("explain")
@key_argument
@store_option
@json_option
def command(*, key: str, store: str, as_json: bool) -> None:
    """
    Show why the job KEY has not run yet: the reason, when the reason ends, the job's lane and process, and the remedy.

    Ask the service that fires the job (--store http://...), because it knows more than the store.
    """
    with opened(store) as scheduler:
        found = scheduler.explain(key)
    if found is None:
        raise Refused(ExitCode.NOT_FOUND, f"no job has the key {key!r}: it was never set, has run, or was cancelled")
    if as_json:
        print_json(explanation_document(found))
        return
    rows = {
        "reason": found.reason,
        "lane": found.lane,
        "until": "" if found.until is None else local_time(found.until),
        "owner": found.owner or "",
        "because": found.text,
        "remedy": found.remedy,
    }
    for name, text in rows.items():
        if text:
            click.echo(f"{name}\t{printable(str(text))}")
