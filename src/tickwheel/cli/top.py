from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from datetime import datetime
from typing import Any

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.output import live, print_json, table
from tickwheel.cli.values import DurationRange
from tickwheel.remote import is_service
from tickwheel.remote.transport import Transport

__all__ = ["command"]

_TIMEOUT_S = 5.0
_FIRINGS = 15
_RECEIVERS = 15
_USUAL = "http://127.0.0.1:8765"


def _usual_url() -> str:
    store = os.environ.get("TICKWHEEL_STORE", "")
    return store if is_service(store) else _USUAL


@click.command("top")
@click.option(
    "--url",
    metavar="URL",
    default=_usual_url,
    show_default=f"{_USUAL}, or TICKWHEEL_STORE where that is a service",
    help="The service's address.",
)
@click.option("--token", envvar="TICKWHEEL_TOKEN", show_envvar=True, help="A token of the service, if it needs one.")
@click.option("--every", type=DurationRange(0.1), default=1.0, show_default="1s", help="The time between updates.")
@click.option("--once", is_flag=True, help="Show the figures once, and end.  [default where stdout is not a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one document for each update.")
def command(*, url: str, token: str | None, every: float, once: bool, as_json: bool) -> None:
    """
    Watch pending jobs, firings and their lateness, every node, and receivers that are full or down, until Ctrl-C.
    """
    if not is_service(url):
        raise Refused(ExitCode.USAGE, f"--url {url!r} is not an address: write http://HOST:PORT")
    with closing(Transport(url, token or None, _TIMEOUT_S)) as transport:
        look = _Looks(transport)
        if as_json:
            print_json(look())
            while not once:
                time.sleep(every)
                print_json(look())
        else:
            live(lambda: _view(look()), every, is_once=once or not sys.stdout.isatty())


class _Looks:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._fired: tuple[float, int] | None = None

    def __call__(self) -> dict[str, Any]:
        stats, firings = self._get("/v1/stats"), self._get(f"/v1/firings?limit={_FIRINGS}")["firings"]
        fleet = self._get("/v1/fleet")
        now, fired = time.monotonic(), stats["fired"]
        if self._fired is None:
            rate = sum(_rate(node) for node in fleet["nodes"])
        else:
            rate = max(0.0, (fired - self._fired[1]) / (now - self._fired[0]))
        self._fired = now, fired
        return {"stats": stats, "firings": firings, "fleet": fleet, "fired_per_s": rate}

    def _get(self, path: str) -> Any:
        return self._transport.submit(self._transport.document("GET", path)).result()


def _view(look: dict[str, Any]) -> list[Any]:
    stats, lateness = look["stats"], look["stats"]["lateness"]
    counts = ("pending", "paused", "running", "dead")
    speed = ("fired", "failed", "fired/s", "late p50", "late p99", "late max")
    late = (f"{lateness[name]:.2f} ms" for name in ("p50_ms", "p99_ms", "max_ms"))
    rows = [
        (_time_of_day(f["fired_at"]), f["key"], f["handler"] or f["target"], _outcome(f), f"{f['lateness_ms']:.2f} ms")
        for f in reversed(look["firings"])
    ]
    fleet = look["fleet"]
    columns = ("node", "state", "shards", "fired/s", "late p99", "running", "waiting")
    receivers = _receivers(stats["targets"])
    troubled = ("target", "receiver", "state", "failures", "asked in", "why")
    return [
        table(counts, [[stats[name] for name in counts]], right=counts),
        table(speed, [(stats["fired"], stats["failed"], f"{look['fired_per_s']:.1f}", *late)], right=speed),
        table(columns, [_node(each, len(fleet["shards"])) for each in fleet["nodes"]], right=columns[2:]),
        *([table(troubled, receivers, right=troubled[3:5])] if receivers else []),
        table((f"fired at ({_zone()})", "key", "goes to", "outcome", "late"), rows, right=("late",)),
    ]


def _zone() -> str:
    return datetime.now().astimezone().tzname() or "local"


def _time_of_day(instant: str) -> str:
    return datetime.fromisoformat(instant).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _outcome(firing: dict[str, Any]) -> str:
    progress = firing.get("progress")
    return str(firing["outcome"]) + (f" {progress['fraction']:.0%}" if progress else "")


def _receivers(targets: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (target, name, each["state"], each["failures"], f"{each['open_s']:.0f} s", each.get("reason", ""))
        for target, places in targets.items()
        for name, each in places.items()
        if isinstance(each, dict) and each.keys() >= {"state", "failures", "open_s"}
    ][:_RECEIVERS]


def _node(node: dict[str, Any], shards: int) -> tuple[object, ...]:
    own = f"{len(node['shards'])} of {shards}"
    if node["figures"] is None:
        return (node["owner"], node["state"], own, "", "", "", "")
    figures, lately = node["figures"], node["figures"]["lately"]
    late = f"{lately['p99_ms']:.2f} ms" if lately["count"] else ""
    return (node["owner"], node["state"], own, f"{_rate(node):.1f}", late, figures["in_flight"], figures["waiting"])


def _rate(node: dict[str, Any]) -> float:
    if node["figures"] is None:
        return 0.0
    lately = node["figures"]["lately"]
    return float(lately["fired"] / max(1.0, lately["span_s"]))
