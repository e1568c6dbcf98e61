"""
The firings that the service sends to the page.
"""

from __future__ import annotations

import threading

import pytest
from engines import noted_engines

from tickwheel.scheduler import Scheduler
from tickwheel.service.firings import Firings, Seen


@pytest.fixture
def engines():
    with noted_engines() as noted:
        yield noted


@pytest.fixture
def waiting():
    """
    Return a scheduler with a handler that waits, an event that the handler sets, and an event that ends the handler.
    """
    running, go_on = threading.Event(), threading.Event()
    with Scheduler("memory://") as scheduler:

        @scheduler.handler("waits")
        def waits(_payload):
            running.set()
            go_on.wait()

        yield scheduler, running, go_on
        go_on.set()


def test_a_firing_is_sent_once(waiting, until):
    """
    A finished firing is sent once, even if all firings that began later are still running.
    """
    scheduler, running, _ = waiting
    firings, all_keys, some = Firings(scheduler), Seen(), Seen()
    scheduler.set("team/short", delay=0, target="log")
    until(lambda: [each.outcome for each in firings.last(1)] == ["succeeded"])
    assert [each.key for each in firings.news(all_keys, 100)] == ["team/short"]
    scheduler.set("team/long", delay=0, handler="waits")
    running.wait()
    assert [each.key for each in firings.news(all_keys, 100)] == ["team/long"]
    assert firings.news(all_keys, 100) == []
    assert [each.key for each in firings.news(some, 1, "team/s")] == ["team/short"]
    assert firings.news(some, 1, "team/s") == []


def test_a_firing_that_ends_during_the_read(engines, waiting, until, monkeypatch):
    """
    If a firing ends while the firings are being read, it is sent as running, and its outcome is sent later.
    """
    scheduler, running, go_on = waiting
    (owner,) = engines
    read = owner.running

    def read_late():
        found = read()
        go_on.set()
        until(lambda: scheduler.stats()["succeeded"] == 1)
        return found

    monkeypatch.setattr(owner, "running", read_late)
    scheduler.set("k", delay=0, handler="waits")
    running.wait()
    firings, seen = Firings(scheduler), Seen()
    assert [each.outcome for each in firings.news(seen, 100)] == ["running"]
    assert [each.outcome for each in firings.news(seen, 100)] == ["succeeded"]


def test_duration_and_node(waiting, until):
    """
    Each finished firing has its duration and the name of the node that fired it.
    """
    scheduler, running, go_on = waiting
    firings = Firings(scheduler)
    scheduler.set("plain", delay=0, target="log")
    until(lambda: firings.last(1, "plain"))
    scheduler.set("again", delay=0, every=3600, handler="waits")
    assert running.wait(30)
    (runs,) = firings.last(1, "again")
    assert (runs.outcome, runs.took_ms) == ("running", None)
    scheduler.subscribe(lambda _event: None)
    scheduler.set("watched", delay=0, target="log")
    until(lambda: firings.last(1, "watched"))
    go_on.set()
    until(lambda: firings.last(1, "again")[0].outcome == "succeeded")
    took = {each.key: each.took_ms for each in firings.last(10)}
    assert took["plain"] > 0
    assert took["watched"] > 0
    assert took["again"] > 0
    (record,) = scheduler.history("again", limit=1)
    assert (firings.last(1, "again")[0].took_ms, {each.by for each in firings.last(10)}) == (
        record.took_ms,
        {record.by},
    )
