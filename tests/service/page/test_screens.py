"""
Every view has a screenshot in the documents, and fits a wide screen and a phone, in light and dark.

`make screens` takes the screenshots.
"""

from __future__ import annotations

import base64
import os
import random
import signal
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

SCREENS = Path(__file__).parents[3] / "docs" / "screens"
DOCUMENT = SCREENS.parent / "page.md"
BYTES_MAX = 180_000
SCREENS_MAX, FIRINGS_MAX = 3, 5  # lengths of the overview and of its firings on a phone, in screens
WIDTHS = {"wide": (1200, 780), "phone": (390, 780)}
SCHEMES = ("light", "dark")
AXE = Path(sys.prefix, "clients", "node_modules", "axe-core", "axe.min.js")
IS_WRITING = os.environ.get("TICKWHEEL_SCREENS") == "write"
KINDS = ("reminder", "cart", "trial", "lease", "session")
LEASE_S = 64  # in its last quarter a killed node is shown as silent, and four pictures are taken then
STRANGE = ("提醒/東京/日本語のキー", "مفتاح/١٢٣", "a very long key that goes on and on " * 12)

# By name: the address, an element that exists once the view is shown, and the job to open.
VIEWS: dict[str, tuple[str, str, str | None]] = {
    "overview": ("", "#jobs .row", None),
    "dead": ("#dead", "#letters .letter", None),
    "schedules": ("#schedules", "#schedules .schedule", None),
    "lanes": ("#lanes", "#lane-table tbody tr", None),
    "fleet": ("#fleet", "#lanes .lane", None),
    "wheel": ("#wheel", "#levels tbody tr", None),
    "job": ("", "#detail dl", "retrying/0001"),
}
SCREEN_KINDS = [(scheme, width) for scheme in SCHEMES for width in WIDTHS]
CASES = [(view, *kind) for view in (*VIEWS, "empty", "away") if view != "fleet" for kind in SCREEN_KINDS]


@pytest.fixture(scope="module")
def demo(start_module, tmp_path_factory) -> Any:
    """
    Return a server with four thousand jobs of all kinds, and the path of a file that makes its store stop answering.
    """
    away = tmp_path_factory.mktemp("away") / "away"
    server = start_module(away)
    draw = random.Random(4)
    spans = ((5, 300), (5, 300), (60, 3600), (3600, 86_400), (1795, 1805), (25_100, 25_300))
    jobs = [
        {"key": f"{draw.choice(KINDS)}/{draw.randrange(10**6):06d}", "delay": draw.uniform(*spans[number % len(spans)])}
        for number in range(4000)
    ]
    jobs += [{"key": key, "delay": 100 + place} for place, key in enumerate(STRANGE)]
    jobs += [{"key": f"invoice/{n:04d}", "delay": 0, "handler": "invoice", "retry": {"attempts": 1}} for n in range(9)]
    retry = {"attempts": 6, "base_s": 90}
    jobs += [{"key": f"retrying/{n:04d}", "delay": 0, "handler": "invoice", "retry": retry} for n in range(3)]
    jobs += [
        {"key": "report/daily", "cron": "30 4 * * *", "tz": "Europe/Berlin"},
        {"key": "report/monday", "cron": "0 9 * * MON", "tz": "America/New_York", "misfire": "skip"},
        {"key": "cleanup", "every": 3600, "jitter": 60},
        {"key": "heartbeat", "every": 2},
    ]
    items = [{"do": "set", "handler": "mail", "payload": {"to": "user@example.com"}} | job for job in jobs]
    answer = server.ask("POST", "/v1/jobs:batch", {"items": items})
    assert [result for result in answer.json["results"] if result["status"] >= 300] == []
    jobs = [{"key": f"photo/{n}", "delay": 0, "target": "pull", "handler": "photos"} for n in range(12)]
    server.ask("POST", "/v1/jobs:batch", {"items": [{"do": "set"} | job for job in jobs]})
    with server.live() as live:
        while live.event()[1].get("dead", 0) < 9:
            pass
    return server, away


@pytest.fixture(scope="module")
def start_module(server, tmp_path_factory) -> Iterator[Any]:
    """
    Return a function that starts a server with the handlers for screenshots.

    All servers are stopped at the end.
    """
    started = []

    def start(away: Path) -> Any:
        environment = {"PYTHONPATH": str(Path(__file__).parent), "TICKWHEEL_DEMO_AWAY": str(away)}
        folder = tmp_path_factory.mktemp("demo")
        started.append(type(server)(folder, "--handlers", "demo_handlers", environment=environment))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture(scope="module")
def empty(start_module, tmp_path_factory) -> Any:
    """
    Return a server without a job.
    """
    return start_module(tmp_path_factory.mktemp("never") / "away")


@contextmanager
def screen(page, scheme, width) -> Iterator[None]:
    """
    Set the browser to a screen width and a colour scheme.
    """
    browser = page.browser
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    motion = "no-preference" if IS_WRITING else "reduce"
    preferences = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
    features = [{"name": name, "value": value} for name, value in preferences.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", size | {"deviceScaleFactor": 1, "mobile": width == "phone"}
    )
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": False})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@contextmanager
def presented(demo, empty, page, view, scheme, width) -> Iterator[None]:  # noqa: PLR0917  fixtures and a case
    """
    Show *view* on a screen of *width*, in the colour scheme *scheme*.
    """
    server, away = demo
    with screen(page, scheme, width):
        try:
            if view == "empty":
                page.open(empty)
                page.wait_for(lambda: page.find("#jobs-empty").is_displayed())
            elif view == "away":
                page.open(server)
                page.wait_for(lambda: page.texts("#jobs .row"))
                away.touch()
                page.wait_for(lambda: page.find("#trouble").is_displayed())
            else:
                _show(page, server, *VIEWS[view])
            yield
        finally:
            away.unlink(missing_ok=True)


@pytest.mark.parametrize(("view", "scheme", "width"), CASES)
def test_view(demo, empty, page, view, scheme, width):  # noqa: PLR0917  fixtures and a case
    """
    The view fits its screen, and has a small screenshot of the right size in the documents.
    """
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    with presented(demo, empty, page, view, scheme, width):
        assert page.run("return document.documentElement.scrollWidth") <= size["width"]
        if (view, width) == ("overview", "phone"):
            page.wait_for(lambda: len(page.texts("#firings .row")) > FIRINGS_MAX)
            assert page.run("return document.documentElement.scrollHeight / innerHeight") <= SCREENS_MAX
        if view == "away":
            assert page.run(SIDES, "#trouble") == page.run(SIDES, "[data-view=overview] > .panel")
        if IS_WRITING:
            time.sleep(3)  # the rates need some seconds, and the hands of the wheel must move
            _take_picture(page, view, scheme, width)
    _check_picture(_path(view, scheme, width), size)


@pytest.mark.skipif(not AXE.is_file(), reason="there is no npm, by which make installs axe-core")
@pytest.mark.parametrize(("view", "scheme", "width"), [*CASES, ("fleet", "dark", "wide")])
def test_the_view_is_accessible(demo, empty, page, view, scheme, width):  # noqa: PLR0917  fixtures and a case
    """
    With all forms open, axe finds no barrier for users with low vision, without sight or without a pointer.
    """
    with presented(demo, empty, page, view, scheme, width):
        _check_with_axe(page, "#detail" if view == "job" else "html")  # a job is shown over the overview
        if view == "overview":
            for dialog in ("keys", "acts", "palette"):
                page.run("document.getElementById(arguments[0]).showModal()", dialog)
                assert page.browser.execute_async_script(FINDINGS, f"#{dialog}") == []
                page.run("document.getElementById(arguments[0]).close()", dialog)


def test_the_fleet(postgres_url, start, page, tmp_path):
    """
    If one of two nodes on PostgreSQL is killed, its row is red until the node's leases expire.
    """
    nodes = [_node(start, postgres_url, tmp_path) for _ in range(2)]
    page.browser.get(f"http://{nodes[0].host}:{nodes[0].port}/#fleet")
    page.wait_for(lambda: [len(node["shards"]) for node in _nodes(nodes[0])] == [2, 2])
    _keep_busy(nodes[0])
    page.wait_for(lambda: all(node["figures"]["lately"]["fired"] > 50 for node in _nodes(nodes[0])))
    nodes[1].process.send_signal(signal.SIGSTOP)
    try:
        page.wait_for(lambda: page.texts("#lanes .silent"))
        for scheme, width in SCREEN_KINDS:
            with screen(page, scheme, width):
                assert page.run("return document.documentElement.scrollWidth") <= WIDTHS[width][0]
                assert page.run(EDGES) == page.run(COLOURS)
                if IS_WRITING:
                    _take_picture(page, "fleet", scheme, width)
                if AXE.is_file():
                    _check_with_axe(page)
                    page.run(CLOSE)
        assert page.texts("#fleet-lead") == ["Of all processes: 2 nodes, 1 of them silent, on 4 shards."]
        assert page.texts("#lanes .silent .lease")[0].startswith("leases end in")
    finally:
        nodes[1].process.send_signal(signal.SIGCONT)
    for scheme, width in SCREEN_KINDS:
        _check_picture(_path("fleet", scheme, width), dict(zip(("width", "height"), WIDTHS[width], strict=True)))


def test_every_view_is_shown_here(server, page):
    """
    The document on the page's views has a screenshot of every view to which the page links.
    """
    page.open(server)
    assert {link.removeprefix("#") for link in page.run(LINKS)} == {"overview"} | {
        hash_.removeprefix("#") for hash_, _, _ in VIEWS.values() if hash_
    }
    names = {_path(*case).name for case in (*CASES, *(("fleet", *kind) for kind in SCREEN_KINDS))}
    assert {path.name for path in SCREENS.iterdir()} == names
    text = DOCUMENT.read_text("utf-8")
    assert {name for name in names if f"screens/{name}" not in text} == set()


FINDINGS = """
const [part, done] = arguments;
const further = [".rows", "tbody"].map((list) => [`${list} > :nth-child(n + 6)`]);
axe.run({ include: [[part]], exclude: further }, { resultTypes: ["violations"] }).then(({ violations }) => done(
  violations.map(({ id, help, nodes }) => [id, help, nodes.map(({ html, failureSummary }) => [html, failureSummary])]),
));
"""
SIDES = """
const { left, right } = document.querySelector(arguments[0]).getBoundingClientRect();
return [left, right].map(Math.round);
"""
CLOSE = "for (const each of document.querySelectorAll('details')) each.open = false"
EDGES = """
return ["well", "silent"].map((state) => getComputedStyle(document.querySelector(`.lane.${state}`)).borderLeftColor)
"""
COLOURS = """
const probe = document.body.appendChild(document.createElement("i"));
const found = ["--good", "--bad"].map((name) => ((probe.style.color = `var(${name})`), getComputedStyle(probe).color));
probe.remove();
return found;
"""
LINKS = "return [...document.querySelectorAll('#views a')].map((link) => link.hash)"


def _show(page: Any, server: Any, address: str, found: str, key: str | None) -> None:
    page.browser.get(f"http://{server.host}:{server.port}/{address}")
    page.wait_for(lambda: page.find("#link").text == "live")
    if key is not None:
        page.open_job(key)
    page.wait_for(lambda: page.texts(found))


def _node(start: Any, url: str, folder: Path) -> Any:
    """
    Start a node on PostgreSQL, with *url* in the environment, so that no screenshot shows the URL.
    """
    store = urlsplit(url)
    place = {f"PG{name.upper()}": value for name, value in parse_qsl(store.query)}
    environment = {"PYTHONPATH": str(Path(__file__).parent), "TICKWHEEL_DEMO_AWAY": str(folder / "away")} | place
    address = f"{store.scheme}://{store.path}?shards=4&lease_s={LEASE_S}"
    return start("--handlers", "demo_handlers", "--store", address, environment=environment)


def _nodes(server: Any) -> Any:
    return server.ask("GET", "/v1/fleet").json["nodes"]


def _keep_busy(server: Any) -> None:
    """
    Set jobs that fire during the next minutes, one of which fails, and some jobs that are due much later.
    """
    draw = random.Random(4)
    items = [{"key": f"{draw.choice(KINDS)}/{n:06d}", "delay": draw.uniform(0, 300)} for n in range(3000)]
    items += [{"key": f"far/{n}", "delay": 86_400} for n in range(500)]
    items += [{"key": "invoice/0001", "delay": 5, "handler": "invoice", "retry": {"attempts": 1}}]
    answer = server.ask("POST", "/v1/jobs:batch", {"items": [{"do": "set", "handler": "mail"} | job for job in items]})
    assert [result for result in answer.json["results"] if result["status"] >= 300] == []


def _path(view: str, scheme: str, width: str) -> Path:
    return SCREENS / f"{view}-{scheme}-{width}.png"


def _take_picture(page: Any, view: str, scheme: str, width: str) -> None:
    SCREENS.mkdir(exist_ok=True)
    _path(view, scheme, width).write_bytes(_picture(page.browser))


def _check_with_axe(page: Any, part: str = "html") -> None:
    page.run("for (const each of document.querySelectorAll('details')) each.open = true")
    page.run("for (const each of document.getAnimations()) each.finish()")
    page.run(AXE.read_text("utf-8"))
    assert page.browser.execute_async_script(FINDINGS, part) == []


def _check_picture(path: Path, size: dict[str, int]) -> None:
    assert path.exists(), f"there is no {path.name}: run make screens"
    data = path.read_bytes()
    assert len(data) < BYTES_MAX
    assert struct.unpack(">4xII", data[12:24]) == (size["width"], size["height"])


def _picture(browser: Any) -> bytes:
    """
    Return a screenshot of the visible part of the page, with maximum compression.
    """
    data = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])
    place, parts, pixels = 8, [data[:8]], b""
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        place += 12 + length
        if kind == b"IDAT":
            pixels += body
        elif kind == b"IEND":
            parts += [_chunk(b"IDAT", zlib.compress(zlib.decompress(pixels), 9)), _chunk(kind, body)]
        else:
            parts.append(_chunk(kind, body))
    return b"".join(parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
