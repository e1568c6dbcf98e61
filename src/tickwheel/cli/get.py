from __future__ import annotations

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, key_argument, opened, store_option
from tickwheel.cli.output import print_job
from tickwheel.scheduler import State

__all__ = ["command"]


@click.command("get")
@key_argument
@store_option
@json_option
def command(key: str, store: str, as_json: bool) -> None:
    """
    Show the job KEY.
    """
    with opened(store) as scheduler:
        job = scheduler.get(key)
        progress = scheduler.progress(key) if job is not None and job.state is State.RUNNING else None
    if job is None:
        raise Refused(ExitCode.NOT_FOUND, f"no job has the key {key!r}: it was never set, has run, or was cancelled")
    print_job(job, progress, as_json=as_json)
