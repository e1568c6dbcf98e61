"""
The log of acts (callers' writes, bulk changes, and events of nodes).
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tickwheel.cli.app import cli
from tickwheel.engine import _leases
from tickwheel.jobs.model import Actor, HistoryRecord
from tickwheel.jobs.verbs import ACTOR
from tickwheel.scheduler import HistoryOptions, SchedulerOptions, SetRequest
from tickwheel.stores import Abilities, MemoryStore, Node

HANGS = """
import sys, threading
from tickwheel.scheduler import Scheduler

scheduler = Scheduler(sys.argv[1])

@scheduler.handler
def hang(_payload):
    print(scheduler.nodes()[0].owner, flush=True)
    threading.Event().wait()  # until it is killed

scheduler.start().set("k", delay=0, handler="hang")
threading.Event().wait()
"""


class Shared(MemoryStore):
    """
    A store that may have other owners.

    One of its nodes is dead.
    """

    abilities = Abilities(has_many_owners=True)

    def nodes(self):
        """
        Return a dead node and a living one.
        """
        return [Node("dead", until=5), Node("alive", until=2**62)]


def acts(scheduler):
    """
    Return the outcome, key and note of each record in the log of acts, the oldest first.
    """
    return [(each.outcome, each.key, each.note) for each in reversed(scheduler.acts(0))]


def test_deploys(file_url, make, monkeypatch):
    """
    A deploy is recorded when a node starts with another version, not at every start.
    """
    for version in ("1.0", "1.0", "1.1"):
        monkeypatch.setattr(_leases, "__version__", version)
        make(file_url).start().stop()
    assert acts(make(file_url)) == [("deployed", "tickwheel version", each) for each in ("1.0", "1.1")]


def test_death_of_the_owner(file_url, make):
    """
    If the owner of a file is killed, the next owner records its death, and the attempts that the kill interrupted.
    """
    with subprocess.Popen([sys.executable, "-c", HANGS, file_url], stdout=subprocess.PIPE, text=True) as process:
        killed = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    follower = make(file_url)
    follower.handler("other")(print)
    follower.start()
    _, died, took = reversed(follower.acts(0))
    assert (died.outcome, died.key, died.by) == ("node_died", killed, took.by)
    assert (took.outcome, took.key, took.note) == ("took_over", took.by, "attempts cut off: 1; shards: 0")
    follower.stop()
    make(file_url).start().stop()
    assert [each.outcome for each in make(file_url).acts(0)] == ["took_over", "node_died", "deployed"]


def test_death_of_one_of_many(make, engines):
    """
    The log shows a node's death once, however many nodes have recorded it.
    """
    store = Shared()
    node = make(store).start()
    assert [act[:2] for act in acts(node)] == [
        ("deployed", "tickwheel version"),
        ("node_died", "dead"),
        ("took_over", node.stats()["owner"]),
    ]
    engines[0].journal.record_deaths()
    store.add_records([HistoryRecord(0, store.now_ms(), "dead", 0, 0, "node_died", "alive", "", "", 5)])
    assert [act[0] for act in acts(node)].count("node_died") == 1


def test_death_after_a_takeover(make, engines):
    """
    If another node takes over a shard of a dead node, the log gets a record of the death.

    This holds even if the log already has an earlier death of that node.
    """
    store = Shared()
    make(store).start()
    (owner,) = engines
    for deaths in (2, 3):
        store.add_records([HistoryRecord(0, store.now_ms(), "dead", 0, 0, "took_over", "dead", "", "", 5)])
        owner.leases._gained.extend(store.renew(owner.name))
        owner.journal.record_deaths()
        outcomes = [each.outcome for each in store.history("dead", None, 9)]
        assert outcomes == [*["node_died", "took_over"] * (deaths - 1), "node_died"]


def test_no_log_without_a_history(make):
    """
    If the history is disabled, the list of acts (callers' writes and events of nodes) is empty.
    """
    node = make(Shared(), options=SchedulerOptions(history=HistoryOptions(keep="none"))).start()
    assert node.acts(0) == []


def test_acts_and_bulk(file_url, make):
    """
    The record of a move has the old and the new due time.

    A bulk change is one record with its verb, filter, counts and note.
    """
    scheduler = make(file_url)
    scheduler.handler("h")(print)
    for key in ("a/1", "a/2", "b/1"):
        scheduler.set(key, every=60, handler="h")
    before = scheduler.get("b/1").due_at
    scheduler.move("b/1", delay=100)
    scheduler.bulk("cancel", "a/", note="they were set twice")
    scheduler.bulk("cancel", "z/", note="nothing")
    bulk, moved, *created = scheduler.acts(0)
    assert (bulk.outcome, bulk.note) == ("bulk", "cancel: 2 changed, 0 refused; prefix='a/'")
    assert (bulk.error, bulk.by) == ("they were set twice", moved.by)
    assert (moved.outcome, moved.key, moved.was_due_at) == ("moved", "b/1", before)
    assert [each.outcome for each in created] == ["created"] * 3
    assert [each.bulk for each in scheduler.history("a/1")] == [bulk.key, None]
    result = CliRunner().invoke(cli, ["acts", "--since", "10m", "--store", file_url])
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 5)
    assert "they were set twice" in result.stdout.splitlines()[0]


def test_a_bulk_act_in_parts(make):
    """
    A bulk change that is continued by cursors is one record, with the sums of the counts.

    Bulk changes of other callers have separate records.
    """
    scheduler = make("memory://")
    scheduler.handler("h")(print)
    scheduler.set_many([SetRequest(f"a/{number}", every=60, handler="h") for number in range(5)])
    start = scheduler.bulk("pause", "a/", dry_run=True).start
    cursor = start
    while cursor is not None:
        cursor = scheduler.bulk("pause", "a/", limit=2, cursor=cursor, note="in parts").cursor
    entries = [each for each in scheduler.acts(0) if each.outcome == "bulk"]
    assert [(each.note, each.error) for each in entries] == [("pause: 5 changed, 0 refused; prefix='a/'", "in parts")]
    token = ACTOR.set(Actor("another", is_always=True))
    try:
        scheduler.bulk("cancel", "a/", cursor=start)
    finally:
        ACTOR.reset(token)
    notes = [(each.by, each.note.partition(";")[0]) for each in scheduler.acts(0) if each.outcome == "bulk"]
    assert notes == [("another", "cancel: 5 changed, 0 refused"), (entries[0].by, "pause: 5 changed, 0 refused")]


@pytest.mark.parametrize("limit", [0, 1001, "x"])
def test_bad_limit(make, limit):
    """
    A limit out of range is refused.
    """
    with pytest.raises((ValueError, TypeError), match="limit"):
        make("memory://").acts(0, limit=limit)
