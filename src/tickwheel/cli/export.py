from __future__ import annotations

import click

from tickwheel.cli.interchange import exported
from tickwheel.cli.listing import jobs_of
from tickwheel.cli.options import opened, store_option
from tickwheel.cli.output import counted, print_json
from tickwheel.jobs.model import STOPPED, State

__all__ = ["command"]


@click.command("export")
@click.argument("prefix", default="")
@store_option
def command(prefix: str, store: str) -> None:
    """
    Write the jobs whose key begins with PREFIX to stdout, as lines that 'import jsonl' reads.

    Running jobs are written like pending jobs. Jobs that were asked to stop while running, attempt counts, and pauses
    of handlers, queues or targets are left out. An import keeps paused jobs paused, and does not set dead letters.
    """
    dead = 0
    with opened(store) as scheduler:
        for job in jobs_of(scheduler, prefix):
            if job.expires_at != STOPPED or job.state is State.DEAD:
                dead += job.state is State.DEAD
                print_json(exported(job))
        scopes = len(scheduler.paused_scopes())
    if dead:
        click.echo(
            f"{counted(dead, 'dead letter')} written, which an import leaves out: 'migrate' keeps them", err=True
        )
    if scopes:
        click.echo(f"{counted(scopes, 'paused scope')} not written: pause them in the other store first", err=True)
