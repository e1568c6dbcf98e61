from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import click
from rich.console import Console
from rich.progress import Progress

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.interrupts import run_interruptible
from tickwheel.cli.options import json_option
from tickwheel.cli.output import print_json, print_rows
from tickwheel.cli.values import DURATION, OutputPath
from tickwheel.lab.chaos.history import History, Outcome
from tickwheel.lab.chaos.judge import Verdict, judge
from tickwheel.lab.chaos.plan import FAULTS, NEEDS_STORE_LINK, FaultError, plan_of
from tickwheel.lab.chaos.run import PATIENCE_S, ChaosOptions, run_chaos

__all__ = ["command"]

_SHOWN: Final = 20
_IN_FLIGHT_S: Final = 0.05
"""Maximum seconds until a message arrives, in addition to the latency of its link."""
_LEASE_S: Final = 5.0
"""Duration of a lease of a shared store, in seconds. A longer lease would excuse late firings after a kill."""


class _Faults(click.ParamType[tuple[str, ...]]):
    name = "faults"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        kinds = tuple(part.strip() for part in str(value).split(","))
        for kind in kinds:
            if kind not in FAULTS:
                self.fail(f"{kind!r} is not a fault: take some of {', '.join(FAULTS)}", param, ctx)
        return kinds


@click.command("chaos")
@click.option(
    "--store",
    metavar="URL",
    help="Where the jobs are; one made for this, on a lease of 5 s.  [default: a SQLite file that is removed]",
)
@click.option("--seconds", type=DURATION, default=30.0, show_default="30s", help="Duration of the faults.")
@click.option(
    "--latency", type=DURATION, default=0.15, show_default="150ms", help="The round-trip latency of the links."
)
@click.option("--jitter", type=DURATION, default=0.03, show_default="30ms", help="Maximum deviation of the latency.")
@click.option(
    "--fault", "faults", type=_Faults(), metavar="NAMES", help=f"Which faults, of {', '.join(FAULTS)}.  [default: all]"
)
@click.option("--every", type=DURATION, default=2.0, show_default="2s", help="The time between faults.")
@click.option("--rate", type=click.FloatRange(0.1, 1_000), default=20.0, show_default=True, help="Jobs a second.")
@click.option(
    "--due-within", type=DURATION, default=5.0, show_default="5s", help="Jobs are due within this time, evenly spread."
)
@click.option("--seed", type=int, help="The same seed makes the same jobs and faults.  [default: a new one]")
@click.option("--history", type=OutputPath(), help="Write what happened to this file, as JSON.")
@json_option
def command(
    *,
    store: str | None,
    seconds: float,
    latency: float,
    jitter: float,
    faults: tuple[str, ...] | None,
    every: float,
    rate: float,
    due_within: float,
    seed: int | None,
    history: Path | None,
    as_json: bool,
) -> None:
    """
    Start a service, inject faults while jobs are set, moved and cancelled, and judge the deliveries.

    Slow links connect the service to its target and to its store, if the store is on a server. The faults cut and close
    the links, and pause and kill the process.
    """
    _check(seconds=seconds, every=every, due_within=due_within)
    if not 0 <= jitter <= latency <= 10:  # noqa: PLR2004 a request may take 15 s
        raise Refused(
            ExitCode.USAGE, f"--latency {latency:g} s, --jitter {jitter:g} s: pass 0 <= jitter <= latency <= 10s"
        )
    if store is not None and store.startswith(("http:", "https:")):
        what = f"--store {store!r} is a service: chaos starts one of its own"
        raise Refused(ExitCode.USAGE, f"{what}: pass the URL of a store, or try tickwheel load on the service")
    kinds = _kinds(faults, store)
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "big")
    plan = plan_of(seed, seconds, kinds, every)
    found = History()
    with tempfile.TemporaryDirectory(prefix="tickwheel-chaos-") as folder:
        service = (sys.executable, "-m", "tickwheel.cli.chaos_service", "{store}", "{port}")
        url, lease_s = _leased(store) if store is not None else (f"sqlite:///{folder}/jobs.db", 0.0)
        options = ChaosOptions(service, url, Path(folder), seconds, rate, due_within, latency, jitter, seed)
        with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task(f"chaos, seed {seed}", total=seconds + PATIENCE_S)

            def report(passed: float, words: str) -> None:
                bar.update(task, advance=passed, description=f"chaos, seed {seed}: {words}")

            with _kept(found, history):
                run_interruptible(run_chaos(options, plan, report, found))
    verdict = judge(found, (latency + jitter + _IN_FLIGHT_S) * 1e3, lease_s * 1e3)
    _print_verdict(found, verdict, seed, as_json=as_json)
    if verdict.violations:
        shown = verdict.violations[:_SHOWN]
        more = len(verdict.violations) - len(shown)
        raise Refused(ExitCode.BROKEN, "\n".join([*shown, f"and {more} more"] if more else shown))


@contextmanager
def _kept(found: History, path: Path | None) -> Iterator[None]:
    is_whole = False
    try:
        yield
        is_whole = True
    finally:
        if path is not None and (is_whole or found.writes):
            path.write_text(found.as_json() + "\n", "utf-8")


def _check(**durations: float) -> None:
    for name, seconds in durations.items():
        if not 0 < seconds <= 86_400:  # noqa: PLR2004 a day
            option = name.replace("_", "-")
            raise Refused(ExitCode.USAGE, f"--{option} is {seconds:g} s: pass a duration of up to a day")


def _leased(store: str) -> tuple[str, float]:
    if store.startswith("sqlite:"):
        return store, 0.0
    base, _, query = store.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    given = options.setdefault("lease_s", f"{_LEASE_S:g}")
    try:
        return f"{base}?{urlencode(options)}", float(given)
    except ValueError:
        raise Refused(ExitCode.USAGE, f"lease_s={given!r} in --store is no number: pass seconds, as 10") from None


def _kinds(faults: tuple[str, ...] | None, store: str | None) -> tuple[str, ...]:
    is_file = store is None or store.startswith("sqlite:")
    if not is_file and urlsplit(store).hostname is not None:
        return faults or tuple(FAULTS)
    others = tuple(kind for kind in FAULTS if kind not in NEEDS_STORE_LINK)
    if faults is None and is_file:
        return others
    wanted = faults or tuple(FAULTS)
    for kind in wanted:
        if kind in NEEDS_STORE_LINK:
            why = "SQLite is a file and has no link" if is_file else f"{store!r} names no host to connect to by TCP"
            remedy = f"pass --store postgresql://HOST:PORT/NAME, or --fault {','.join(others)}"
            message = f"--fault {kind}: {why}: {remedy}"
            raise FaultError(message)
    return wanted


def _print_verdict(history: History, verdict: Verdict, seed: int, *, as_json: bool) -> None:
    writes = Counter((write.verb, write.outcome) for write in history.writes)
    faults = Counter(fault.kind for fault in history.faults)
    late = sorted(verdict.late_ms) or [0.0]
    figures: dict[str, object] = {
        **{f"{verb} acknowledged": writes[verb, Outcome.ACKNOWLEDGED] for verb in ("set", "move", "cancel")},
        "refused": sum(count for (_, outcome), count in writes.items() if outcome is Outcome.REFUSED),
        "unknown, asked again": sum(count for (_, outcome), count in writes.items() if outcome is Outcome.UNKNOWN),
        "faults": ", ".join(f"{count} {kind}" for kind, count in sorted(faults.items())),
        "arrived": len(history.deliveries),
        "repeated after a fault": verdict.repeated,
        "late, median": f"{late[len(late) // 2]:,.0f} ms",
        "late, most": f"{late[-1]:,.0f} ms",
        "lost": len(verdict.lost),
        "doubled": len(verdict.doubled),
        "early": len(verdict.early),
        "unexpected": len(verdict.unexpected),
        "silent": len(verdict.silent),
        "seed": seed,
    }
    if as_json:
        print_json(figures)
    else:
        print_rows(("what", "count"), figures.items(), right=["count"])
