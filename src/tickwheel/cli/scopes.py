from __future__ import annotations

import click

from tickwheel.cli.documents import pause_document
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import local_time, print_json, print_rows

__all__ = ["command"]


@click.command("scopes")
@store_option
@json_option
def command(store: str, *, as_json: bool) -> None:
    """
    List the handlers, queues and targets that are paused with "tickwheel pause --scope".
    """
    with opened(store) as scheduler:
        pauses = scheduler.paused_scopes()
    if as_json:
        for pause in pauses:
            print_json(pause_document(pause))
    else:
        rows = ((pause.scope, local_time(pause.at), pause.by, pause.note) for pause in pauses)
        print_rows(("paused", "since", "by", "note"), rows)
