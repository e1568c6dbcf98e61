"""
The fleet over HTTP, of a file that one process owns and another one serves as well.
"""

from __future__ import annotations

import asyncio
import signal

import pytest

from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.service.figures import Figures
from tickwheel.service.firings import Firings
from tickwheel.service.fleet import Fleet


def test_owner_of_a_file(start, tmp_path):
    """
    A process that fires nothing sees the owner of the file, without figures, and nobody once that one was killed.
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
    Return the fleet as a service shows it that fires nothing from the file.
    """
    scheduler = AsyncScheduler(f"sqlite:///{path}")
    fleet = await Fleet(scheduler, Figures(scheduler, Firings(scheduler))).read()
    await scheduler.stop()
    return fleet


def test_client_reads_nodes(start):
    """
    A scheduler on a service has the nodes as the service's own has them.
    """
    pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")
    server = start()
    remote = Scheduler(f"http://{server.host}:{server.port}")
    (node,) = remote.nodes()
    (document,) = server.ask("GET", "/v1/fleet").json["nodes"]
    assert (node.owner, node.heard_at, node.until) == (document["owner"], None, None)
    assert isinstance(node.figures["started_at"], int)
    assert node.figures["lately"].keys() == document["figures"]["lately"].keys()
    remote.stop()
