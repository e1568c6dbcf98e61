from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from tickwheel.calendar.zone import zone_release
from tickwheel.cli import targets
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, opened, sqlite_path, store_option
from tickwheel.cli.output import print_json, print_rows
from tickwheel.errors import TickwheelError
from tickwheel.jobs.model import Job
from tickwheel.remote import is_service
from tickwheel.stores import Examinable, Finding, Node, make_store

__all__ = ["command"]

_EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "cron": ("cronsim",),
    "webhook": ("aiohttp",),
    "service": ("msgspec", "starlette", "uvicorn", "httptools", "prometheus_client"),
}
if sys.platform != "win32":
    _EXTRAS["service"] += ("uvloop",)
_FREE_MIN: Final = 256 << 20
_FLUSHES: Final = 50
_OFFSET_MAX_S: Final = 1.0
"""Maximum acceptable difference between the clocks of store and machine, in seconds."""
_YEAR_MIN: Final = 2024
"""Minimum plausible year of the clock."""

_Found: TypeAlias = Finding | tuple[str, bool, str]
_LOOKED_AT: Final = 1_000
"""Maximum number of pending jobs for which the command checks that a node has their handler."""


@click.command("doctor")
@store_option
@json_option
def command(store: str, as_json: bool) -> None:
    """
    Check Python, libraries, clock, disk and store, and print the remedy of each problem.
    """
    findings = [*_python(), *_libraries(), *clock_findings(), *_zones(), *_targets(), *_disk(store), *_store(store)]
    if as_json:
        for what, is_well, text in findings:
            print_json({"check": what, "ok": is_well, "finding": text})
    else:
        print_rows(
            ("check", "", "finding"), [(what, "ok" if is_well else "WRONG", text) for what, is_well, text in findings]
        )
    wrong = sum(not is_well for _, is_well, _ in findings)
    if wrong:
        raise Refused(ExitCode.FAILED, f"{wrong} of {len(findings)} checks found something wrong")


def _python() -> Iterator[_Found]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield "python", sys.version_info >= (3, 11), f"{version}: 3.11 to 3.15 are tested"


def _libraries() -> Iterator[_Found]:
    for extra, libraries in _EXTRAS.items():
        missing = [library for library in libraries if find_spec(library) is None]
        text = f"{', '.join(missing)} missing: pip install 'tickwheel[{extra}]'" if missing else ", ".join(libraries)
        yield f"extra {extra}", not missing, text


def clock_findings() -> Iterator[_Found]:
    year = time.gmtime().tm_year
    text = time.strftime("%Y-%m-%d %H:%M:%S %z")
    yield "clock", year >= _YEAR_MIN, text if year >= _YEAR_MIN else f"{text}: set it, and keep it set with NTP"


def _zones() -> Iterator[_Found]:
    release = zone_release()
    if release is None:
        text = "no data: install it, as 'pip install tzdata' does, or jobs with tz= wait for a node that has it"
        yield "zone data", False, text
    else:
        yield "zone data", True, f"{release[0] or 'release unknown'}, in {release[1]}"


def _targets() -> Iterator[_Found]:
    for name, value in targets.in_environment(os.environ).items():
        try:
            targets.check_name(name)
            (target,) = targets.made({name: value}, has_to_run=True).values()
        except Refused as refusal:
            yield f"target {name}", False, str(refusal)
        else:
            asyncio.run(target.close())
            yield f"target {name}", True, targets.shown(value)


def _disk(store: str) -> Iterator[_Found]:
    path = sqlite_path(store)
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        yield "folder", False, f"{str(folder)!r} is not there: make it"
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield "folder", False, f"{str(folder)!r} cannot be written: change its rights, or name another store"
        return
    yield "folder", True, str(folder)
    free = shutil.disk_usage(folder).free
    yield "free space", free >= _FREE_MIN, f"{free >> 20} MiB" + ("" if free >= _FREE_MIN else ": make room")
    try:
        flush_ms = _flush_ms(folder)
    except OSError as error:
        yield "flush to disk", False, f"{error.strerror}: make room, or name a store on another disk"
        return
    is_quick = flush_ms < 50  # noqa: PLR2004  above it a single set is noticeably slow
    yield "flush to disk", is_quick, f"{flush_ms:.2f} ms" + ("" if is_quick else ": this disk is slow, use another")


def _flush_ms(folder: Path) -> float:
    with tempfile.TemporaryFile(dir=folder) as file:
        flush = getattr(os, "fdatasync", os.fsync)  # macOS and Windows have no fdatasync
        begin = time.perf_counter()
        for _ in range(_FLUSHES):
            os.write(file.fileno(), b"tickwheel" * 100)
            flush(file.fileno())
        return (time.perf_counter() - begin) / _FLUSHES * 1000


def _store(store: str) -> Iterator[_Found]:
    path = sqlite_path(store)
    if path is not None and not path.exists():
        yield "store", True, f"there is no file {str(path)!r} yet: 'tickwheel serve' makes it"
        return
    try:
        with opened(store, has_to_exist=False) as scheduler:
            stats = scheduler.stats()
            owners = sorted({shard.owner for shard in scheduler.shards() if shard.owner})
            nodes = scheduler.nodes()
            jobs = scheduler.list(state="pending", limit=_LOOKED_AT).jobs
    except TickwheelError as error:
        yield "store", False, str(error)
        with suppress(TickwheelError):
            yield from server_findings(store)
        return
    found = f"{stats['store']}: {stats['pending']} pending, {stats['running']} running, {stats['dead']} dead"
    yield "store", True, found
    yield "fired by", True, ", ".join(owners) or "nobody now: 'tickwheel serve' fires its jobs"
    lost = stats["loss_window"]
    yield "loss window", True, f"may be lost: {lost}" if lost else "none: what is answered is on the disk"
    try:
        yield from server_findings(store)
    except TickwheelError as error:
        yield "server", False, str(error)
    yield from state_findings(stats, nodes)
    yield from handler_findings(nodes, jobs, int(time.time() * 1000 + stats["offset_ms"]))


def server_findings(store: str) -> Iterator[_Found]:
    if not is_service(store):
        made = make_store(store)
        if isinstance(made, Examinable):
            yield from made.examine()


def handler_findings(nodes: Sequence[Node], jobs: Sequence[Job], now: int) -> Iterator[_Found]:
    having: defaultdict[str, list[str]] = defaultdict(list)
    reports = {
        node.owner: node.figures
        for node in nodes
        if node.figures and "handlers" in node.figures and not node.is_dead(now)
    }
    for owner, report in reports.items():
        for name in report["handlers"]:
            having[name].append(owner)
    ends = [report["handlers"][-1] for report in reports.values() if report.get("has_more_handlers")]
    if len(reports) > 1:
        for name in sorted(having):
            if len(having[name]) == 1 and all(name <= end for end in ends):
                text = f"only {having[name][0]} has it: while that node is away, its jobs wait"
                yield f"handler {name!r}", False, f"{text}; register it on a second node"
    if not reports:
        return
    missing = {job.handler for job in jobs if job.target == "handler" and not job.lacks_handler} - having.keys()
    for name in sorted(missing):
        if all(name <= end for end in ends):
            text = "no node has it, and pending jobs need it: register it, or change or cancel the jobs"
            yield f"handler {name!r}", False, text


def state_findings(stats: dict[str, Any], nodes: Sequence[Node]) -> Iterator[_Found]:
    offset_s = stats["offset_ms"] / 1000
    is_near = abs(offset_s) < _OFFSET_MAX_S
    text = f"{abs(offset_s):.1f} s {'ahead of' if offset_s > 0 else 'behind'} this machine's"
    yield "store's clock", is_near, text + ("" if is_near else ": keep both set with NTP; jobs follow the store's")
    versions = sorted({str(node.figures["version"]) for node in nodes if node.figures and "version" in node.figures})
    if versions:
        text = ", ".join(versions)
        is_one = len(versions) == 1
        yield "versions", is_one, text if is_one else f"{text}: bring all nodes to one version"
    releases = sorted({str(node.figures["zones"]) for node in nodes if node.figures and node.figures.get("zones")})
    if len(releases) > 1:
        text = f"{', '.join(releases)}: nodes may compute different instants of a rule, so bring them to one release"
        yield "zone data of nodes", False, text
    for each in stats["waiting_for_handler"]:
        jobs = "1 job waits" if each["count"] == 1 else f"{each['count']} jobs wait"
        remedy = "no node can run them: register the handler and what its rule needs, or change or cancel the jobs"
        yield f"{each['target']} {each['handler']!r}", False, f"{jobs}, and {remedy}"
