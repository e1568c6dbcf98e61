from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.targets import configured, made
from tickwheel.errors import TickwheelError
from tickwheel.jobs.verbs import note_of
from tickwheel.remote import is_service
from tickwheel.scheduler import Scheduler, SchedulerOptions

__all__ = [
    "DEFAULT_STORE",
    "by_option",
    "check_scope",
    "complete_key",
    "exclude_option",
    "generation_option",
    "json_option",
    "key_argument",
    "opened",
    "scope_option",
    "served_option",
    "sqlite_path",
    "store_option",
    "with_options",
]

DEFAULT_STORE: Final = "sqlite:///tickwheel.db"

F = TypeVar("F", bound=Callable[..., Any])

_SQLITE: Final = "sqlite:///"
_COMPLETED: Final = 100


def with_options(options: Sequence[Callable[[F], F]], function: F) -> F:
    """
    Add *options* to a command, which lists them in this order.
    """
    for option in reversed(options):
        function = option(function)
    return function


def complete_key(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """
    Return keys that begin with *begin*, for the shell's completion; no keys if the store is not available.
    """
    try:
        with opened(context.params.get("store") or DEFAULT_STORE) as scheduler:
            return [job.key for job in scheduler.list(begin, limit=_COMPLETED).jobs if job.key.isprintable()]
    except (Refused, TickwheelError):
        return []


def key_argument(function: F) -> F:
    return click.argument("key", shell_complete=complete_key)(function)


def store_option(function: F) -> F:
    return _store(function, "a store, or a service at http://HOST:PORT, with its token in TICKWHEEL_TOKEN")


def served_option(function: F) -> F:
    return _store(function, "the file or the server of a store")


def _store(function: F, kinds: str) -> F:
    return click.option(
        "--store",
        metavar="URL",
        default=DEFAULT_STORE,
        envvar="TICKWHEEL_STORE",
        show_default=True,
        show_envvar=True,
        help=f"Where the jobs are: {kinds}.",
    )(function)


def exclude_option(function: F) -> F:
    return click.option(
        "--exclude",
        metavar="DAYS|LINE",
        multiple=True,
        help="Leave out a day, as in 2030-12-25, days, as in 2030-12-24/2031-01-02, or what a cron line names.",
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one document a line.")(function)


def generation_option(function: F) -> F:
    return click.option(
        "--if-generation", type=int, metavar="N", help="Only if the job has this generation; 0: only if there is none."
    )(function)


def scope_option(function: F) -> F:
    text = "Instead of a job, all of a handler (handler:NAME), a queue (pull:NAME), a target (NAME), or all ('*')."
    return click.option("--scope", metavar="SCOPE", help=text)(function)


def by_option(function: F) -> F:
    text = "The name to note for it, by default that of this process; a service notes whose token it is."
    return click.option("--by", metavar="NAME", help=text)(function)


def check_scope(key: str | None, scope: str | None, if_generation: int | None) -> None:
    if (key is None) == (scope is None) or (scope is not None and if_generation is not None):
        message = "name one job, or what a handler, a queue or a target has by --scope and without a generation"
        raise click.UsageError(message)


def sqlite_path(store: str) -> Path | None:
    return Path(store.removeprefix(_SQLITE).partition("?")[0]) if store.startswith(_SQLITE) else None


@contextlib.contextmanager
def opened(
    store: str, *, has_to_exist: bool = True, has_targets: bool = False, by: str | None = None
) -> Iterator[Scheduler]:
    """
    Open *store* as a client, which fires no jobs. A server may own the store.

    *store* is the URL of a store or of a service. If *has_to_exist* is true, a file must already exist. Pass
    *has_targets* to set jobs with the targets that environment variables define. *by* is the author of changes; None
    for this process.
    """
    path = sqlite_path(store)
    if has_to_exist and path is not None and not path.exists():
        remedy = "begin one with 'tickwheel serve' or 'tickwheel set', or name another with --store"
        raise Refused(ExitCode.NO_STORE, f"there is no file {str(path)!r}: {remedy}")
    if by is not None and is_service(store):
        raise Refused(ExitCode.USAGE, f"--by is {by!r}: leave it out, as the service notes whose token it is")
    targets = made(configured(())) if has_targets and not is_service(store) else {}
    options = None if by is None else SchedulerOptions(owner=note_of(by, "")[0])
    scheduler = Scheduler(store, targets=targets, options=options) if targets else Scheduler(store, options=options)
    try:
        yield scheduler
    finally:
        scheduler.stop()
