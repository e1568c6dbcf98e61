"""
The report that each node writes about itself.

The report is informative: nothing else depends on it.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tickwheel.engine._leases import Heartbeat
from tickwheel.engine.figures import Figures
from tickwheel.host.runtime import Runtime
from tickwheel.observe.events import StoreFailed
from tickwheel.scheduler import Scheduler, StoreError
from tickwheel.stores import Abilities, MemoryStore


class Reported(MemoryStore):
    """
    A store for several owners that keeps their reports, or fails to write them.
    """

    abilities = Abilities(has_many_owners=True, renew_s=0.01)

    def __init__(self):
        super().__init__()
        self.reports = []
        self.is_down = False

    def report(self, owner, figures):
        if self.is_down:
            what = "the test took the store down"
            raise StoreError(what, "wait", is_transient=True)
        self.reports.append((owner, dict(figures)))


@pytest.fixture
def node():
    """
    Return a heartbeat (which writes a node's report), the parts that it reads, and a clock that the test sets.
    """
    now_s, store, figures = [1_000.0], Reported(), Figures()
    resources = SimpleNamespace(
        store=store,
        owner="node",
        hooks=None,
        runtime=replace(Runtime(), monotonic=lambda: now_s[0]),
        clock=SimpleNamespace(now_ms=lambda: 7),
        options=SimpleNamespace(workers=4),
    )
    leases = SimpleNamespace(pause_s=lambda: 0.5, is_renewing=False)
    reported = {"lanes": dict, "handlers": lambda: ["b", "a"], "on_renewed": list}
    heartbeat = Heartbeat(resources, figures, lambda: {"staged": 3}, list, leases, **reported)
    return SimpleNamespace(heartbeat=heartbeat, now_s=now_s, store=store, figures=figures)


def test_last_minute(node):
    """
    Rate and lateness cover the last minute, however often leases are renewed.

    Totals cover the whole lifetime of the node.
    """
    node.figures.counts["fired"] += 5
    node.figures.lateness.add([900.0])
    for _ in range(400):
        node.now_s[0] += 0.5
        node.heartbeat.beat()
    node.figures.counts["fired"] += 2
    node.figures.lateness.add([1.0])
    lately = node.heartbeat.figures()["lately"]
    assert 60 <= lately["span_s"] <= 65
    assert (lately["fired"], lately["count"]) == (2, 1)
    assert 1.0 <= lately["p50_ms"] == lately["max_ms"] <= 1.125
    assert len(node.heartbeat._past) <= 14
    owner, figures = node.store.reports[-1]
    assert (owner, figures["fired"], figures["staged"], figures["every_s"]) == ("node", 5, 3, 0.5)


def test_last_firings(node):
    """
    A report has the last fifty finished firings, oldest first.

    Their outcomes have the names that the API uses.
    """
    ended = [staged(f"k/{number}") for number in range(60)]
    node.figures.recent.add(ended[:-1], ["succeeded"] * 59, [None] * 59)
    node.figures.recent.add(ended[-1:], ["retried"], ["no"])
    recent = node.heartbeat.figures()["recent"]
    assert [each["key"] for each in recent] == [f"k/{number}" for number in range(10, 60)]
    assert {each["outcome"] for each in recent[:-1]} == {"succeeded"}
    assert recent[-1] == {
        "key": "k/59",
        "generation": 7,
        "attempt": 1,
        "fired_at": 1_001,
        "lateness_ms": 1.5,
        "outcome": "failed",
    }


def staged(key):
    """
    Return an attempt of the job *key* that fired a millisecond and a half late.
    """
    job = SimpleNamespace(key=key, generation=7, attempt=0, target="log", handler="", due_at=1_000)
    return SimpleNamespace(job=job, fired_at=1_001.5, ran_ms=0.0)


def test_renewals_do_not_depend_on_reports(make, events, until):
    """
    If a node cannot write its report, it still keeps its leases.

    The hooks are notified of each failure.
    """
    store = Reported()
    store.is_down = True
    scheduler = make(store)
    found = events(scheduler)
    scheduler.start()
    found.wait_for(lambda: sum(isinstance(each, StoreFailed) for each in found.items) >= 3)
    assert scheduler.stats()["leases"]["failures"] == 0
    assert scheduler.stats()["leases"]["renewals"] >= 2
    store.is_down = False
    until(lambda: store.reports)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
def test_a_single_owner_knows_its_own_figures(tmp_path, url):
    """
    If a store allows only one owner, the owner is the only node, and reads its own figures without a report.
    """
    scheduler = Scheduler(url.format(tmp_path))
    assert scheduler.nodes() == []
    scheduler.start()
    (node,) = scheduler.nodes()
    assert (node.owner, node.heard_at, node.figures["fired"]) == (scheduler.stats()["owner"], None, 0)
    scheduler.stop()
