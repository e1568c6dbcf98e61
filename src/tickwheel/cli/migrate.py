from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from typing import Any

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, sqlite_path
from tickwheel.cli.output import counted, print_json, printable, progress
from tickwheel.cli.values import DurationRange
from tickwheel.scheduler import State
from tickwheel.scheduler.migration import Migration, MigrationReport, SameStoreError, identity_of, is_parked, pages_of
from tickwheel.stores import Store, make_store, open_store

__all__ = ["command"]

_MEMORY = "memory"
_SHOWN_MAX = 20


@click.command("migrate")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--dry-run", is_flag=True, help="Count what would be moved, and move nothing.")
@click.option(
    "--batch",
    type=click.IntRange(1, 10_000),
    default=1_000,
    show_default=True,
    help="How many jobs are moved in one step.",
)
@click.option(
    "--wait",
    "wait_s",
    type=DurationRange(0, 3_600),
    default=15.0,
    show_default="15s",
    help="How long to wait for the leases of an owner that died.",
)
@json_option
def command(*, source: str, target: str, dry_run: bool, batch: int, wait_s: float, as_json: bool) -> None:
    """
    Move all pending and dead jobs, unchanged, from the store FROM to the store TO.

    Stop the schedulers of FROM first, because the migration is refused while one of them fires jobs. TO may be served
    during the migration. If the migration ends early, run it again to continue. Until you switch your programs to TO,
    they may set jobs in FROM. After the switch, run the migration again to move these jobs.
    """
    _check(source, target)
    with _opened(source) as from_store:
        if dry_run:
            _print_facts(_foreseen(from_store, target), as_json=as_json)
            return
        with _opened(target) as to_store:
            total = sum(from_store.count().values())
            with progress("moving jobs", total) as advance:
                migration = Migration(from_store, to_store, batch=batch, wait_s=wait_s, on_progress=advance)
                try:
                    report = migration.run()
                except SameStoreError as error:
                    raise Refused(ExitCode.USAGE, str(error)) from None
            _report(report, source=from_store.count(), target=to_store.count(), as_json=as_json)


def _check(source: str, target: str) -> None:
    for url in (source, target):
        if url.partition("://")[0].lower() == _MEMORY:
            raise Refused(ExitCode.USAGE, f"{url!r} is in the memory of its own process: name a store that outlives it")
    if identity_of(make_store(source)) == identity_of(make_store(target)):
        raise Refused(ExitCode.USAGE, f"FROM and TO are both {make_store(source).url!r}: name two stores")
    path = sqlite_path(source)
    if path is not None and not path.exists():
        raise Refused(ExitCode.NO_STORE, f"there is no file {str(path)!r}: name the store that has the jobs")


@contextmanager
def _opened(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def _foreseen(source: Store, target: str) -> dict[str, Any]:
    path = sqlite_path(target)
    keys = [(job.key, job.state, is_parked(job)) for job in chain.from_iterable(pages_of(source, 1_000))]
    conflicts = []
    if path is None or path.exists():
        with _opened(target) as store:
            for key, _, is_on_its_way in keys:
                found = None if is_on_its_way else store.get(key)
                if found is not None and found.state is not State.DEAD:
                    conflicts.append(key)
    states = [state for _, state, is_on_its_way in keys if not is_on_its_way]
    return {
        "dry_run": True,
        "jobs": len(keys),
        **{state.value: states.count(state) for state in State},
        "on_their_way": len(keys) - len(states),
        "conflicts": conflicts,
    }


def _report(report: MigrationReport, *, source: dict[str, int], target: dict[str, int], as_json: bool) -> None:
    facts = asdict(report)
    facts["complete"] = facts.pop("is_complete")
    _print_facts(facts | {"source": source, "target": target}, as_json=as_json)
    if report.conflicts or report.others:
        stay = len(report.conflicts) + len(report.others)
        message = (
            f"{counted(stay, 'job')} left in FROM: the other store has a live job of the key, or it is on its way to a "
            "third one; cancel one of the two, and run it again"
        )
        raise Refused(ExitCode.FAILED, message)
    if not report.is_complete:
        raise Refused(ExitCode.FAILED, "a job is not in TO as it was in FROM: compare them before FROM is deleted")
    if not as_json:
        click.echo("programs that still set jobs in FROM: let them use TO, and then run this again for the late ones")


def _print_facts(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, list):
            text = f"{len(value):,}" + "".join(f"\n    {printable(key)}" for key in value[:_SHOWN_MAX])
        elif isinstance(value, dict):
            text = ", ".join(f"{count:,} {state}" for state, count in value.items())
        else:
            text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).lower()
        click.echo(f"{name.replace('_', ' ')}: {text}")
