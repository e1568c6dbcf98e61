"""
The fleet (all nodes) over HTTP.

One process fires the jobs of a file, and another process serves the file over HTTP.
"""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from tickwheel.cli import app
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.service.figures import Figures
from tickwheel.service.firings import Firings
from tickwheel.service.fleet import Fleet


def test_owner_of_a_file(start, tmp_path):
    """
    If another process fires the jobs of a file, a service names this process, but has no figures of it.

    If that process is killed, the list of nodes is empty.
    """
    server = start()
    here = server.ask("GET", "/v1/fleet").json
    assert [(node["owner"], node["is_this"], node["state"], node["shards"]) for node in here["nodes"]] == [
        (here["owner"], True, "well", [0])
    ]
    assert here["nodes"][0]["figures"]["places"] > 0
    there = asyncio.run(seen(tmp_path / "tickwheel.db"))
    assert [(node.owner, node.is_this, node.figures) for node in there.nodes] == [(here["owner"], False, None)]
    assert there.owner is None
    server.stop(signal.SIGKILL)
    alone = asyncio.run(seen(tmp_path / "tickwheel.db"))
    assert alone.nodes == []
    assert [shard.owner for shard in alone.shards] == [None]


async def seen(path):
    """
    Return the fleet as shown by a service that does not fire the jobs of the file *path*.
    """
    scheduler = AsyncScheduler(f"sqlite:///{path}")
    fleet = await Fleet(scheduler, Figures(scheduler, Firings(scheduler))).read()
    await scheduler.stop()
    return fleet


def test_client_reads_nodes(start):
    """
    A scheduler that is a client of the service returns the same nodes as the scheduler inside the service.
    """
    pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")
    server = start()
    with server.live() as live:
        server.job("PUT", "tea", {"delay": 0, "target": "log"})
        live.firing("tea", "succeeded")
    remote = Scheduler(f"http://{server.host}:{server.port}")
    (node,) = remote.nodes()
    (document,) = server.ask("GET", "/v1/fleet").json["nodes"]
    assert (node.owner, node.heard_at, node.until) == (document["owner"], None, None)
    assert isinstance(node.figures["started_at"], int)
    assert [(each["key"], each["outcome"]) for each in node.figures["recent"]] == [("tea", "succeeded")]
    assert node.figures["started_at"] <= node.figures["recent"][0]["fired_at"]
    assert node.figures["lately"].keys() == document["figures"]["lately"].keys()
    remote.stop()


def test_top_shows_every_node(start, postgres_url, until, top):
    """
    `tickwheel top` has a row for each of two nodes, whichever it is connected to, and marks a node that is silent.
    """
    store = f"{postgres_url}&shards=4&lease_s=12"
    first, second = start("--store", store), start("--store", store)
    until(lambda: sorted(len(node["shards"]) for node in first.ask("GET", "/v1/fleet").json["nodes"]) == [2, 2])
    names = {each.ask("GET", "/v1/fleet").json["owner"]: each for each in (first, second)}
    for name, server in names.items():
        fleet = json.loads(top(server, "--json"))["fleet"]
        assert fleet["owner"] == name
        assert {node["owner"] for node in fleet["nodes"]} == names.keys()
        assert rows(top(server)) == {each: ["well", "2", "of", "4"] for each in names}
    (here, other) = names
    second.process.send_signal(signal.SIGSTOP)
    try:
        until(lambda: rows(top(first))[other][0] in {"silent", "gone"})
        assert rows(top(first))[here][0] == "well"
    finally:
        second.process.send_signal(signal.SIGCONT)


@pytest.fixture
def top(capsys):
    """
    Return a function that returns the output of `tickwheel top` on a service.
    """
    pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

    def run(server, *arguments):
        capsys.readouterr()
        assert app.run(("top", "--url", f"http://{server.host}:{server.port}", "--once", *arguments)) == 0
        return capsys.readouterr().out

    return run


def test_top_shows_receivers(start, top, until):
    """
    An unreachable receiver is shown with the reason, but without the query of its URL, which may contain secrets.
    """
    server = start("--target", "hook=webhook:?allow=127.0.0.1&failures_max=1")
    job = {"delay": 0, "target": "hook", "handler": "http://127.0.0.1:1/hook?token=hunter2"}
    assert server.ask("PUT", "/v1/jobs/one", job).status == 201
    until(lambda: server.ask("GET", "/v1/stats").json["targets"]["hook"])
    (figures,) = json.loads(top(server, "--json"))["stats"]["targets"]["hook"].values()
    assert figures["state"] in {"open", "half-open"}
    assert "http://127.0.0.1:1/hook cannot be reached" in figures["reason"]
    assert " ".join(top(server).split()).count("hook http://127.0.0.1:1 ") == 1


def rows(shown):
    """
    For each node in the output *shown* of `tickwheel top`, return its state and shards.
    """
    lines = [line.split() for line in shown.partition("shards")[2].partition("fired at")[0].splitlines()[1:]]
    return {words[0]: words[1:5] for words in lines if words}
