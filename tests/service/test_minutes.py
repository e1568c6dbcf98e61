"""
The figures by minute, over HTTP and through a scheduler that is a client of the service.
"""

from __future__ import annotations

import pytest

from tickwheel.jobs.minutes import MINUTE_MS, LaneMinute, Minute
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import MemoryStore

testclient = pytest.importorskip("starlette.testclient", reason="Starlette is not installed")
service = pytest.importorskip("tickwheel.service", reason="as above", exc_type=ImportError)

LANE = LaneMinute("handler:é", 5, 2, 1, 3, 40.0, 50.0, 9.0, (1, 0, 4, *(0,) * 9))


@pytest.fixture
def kept():
    """
    Return a client of a service and the figures of two nodes, which the service's store contains.
    """
    store = MemoryStore()
    scheduler = AsyncScheduler(store)
    with testclient.TestClient(
        service.Service(scheduler, service.ServiceOptions()), base_url="http://127.0.0.1"
    ) as client:
        client.get("/v1/stats")  # opens the store
        at = store.now_ms() // MINUTE_MS * MINUTE_MS
        minutes = [Minute(node, at, MINUTE_MS, 7, 20.5, 3.0, (LANE, LANE)) for node in ("a", "b")]
        store.keep_minutes(minutes)
        yield client, minutes
        client.portal.call(scheduler.stop)


def test_minutes(kept):
    """
    The figures of all nodes are returned, with a total for each minute, and by lane unless the query excludes this.
    """
    client, minutes = kept
    document = client.get("/v1/minutes").json()
    assert document["edges_ms"] == [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert [each["node"] for each in document["minutes"]] == ["a", "b"]
    first = document["minutes"][0]
    assert (first["span_s"], first["commits"], first["total"]["fired"], first["total"]["overdue"]) == (60, 7, 10, 6)
    assert first["lanes"][0]["lateness"] == [1, 0, 4, *[0] * 9]
    without = client.get("/v1/minutes", params={"lanes": "false"}).json()["minutes"]
    assert [(each["total"], each["lanes"]) for each in without] == [(each["total"], []) for each in document["minutes"]]
    before = client.get("/v1/minutes", params={"until": minutes[0].at / 1000, "since": 0}).json()
    assert before["minutes"] == []


@pytest.mark.parametrize("query", ["since=x", "since=2030-01-01", "until=x", "lanes=1", "last=1h"])
def test_bad_query(kept, query):
    """
    If a query field is invalid, the error names it.
    """
    client, _ = kept
    answer = client.get(f"/v1/minutes?{query}")
    assert (answer.status_code, query.partition("=")[0] in answer.text) == (422, True)
