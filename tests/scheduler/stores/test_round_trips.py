"""
The round trips that each step of a node takes, on every store that has a server: a few, however many shards and jobs.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest

from tickwheel.jobs import model
from tickwheel.scheduler import Scheduler
from tickwheel.stores import Cursor, open_store

EVER = 2**40
MOST = {
    "take over": (2, 8),
    "renew": (2, 4),
    "look": (1, 1),
    "look back": (1, 1),
    "begin": (1, 1),
    "end": (1, 1),
    "put off": (2, 2),
    "set": (2, 2),
    "set once": (2, 2),
    "set once again": (2, 2),
    "move": (2, 2),
    "cancel": (2, 2),
    "set aside": (3, 2),
    "take up": (4, 1),
    "release": (1, 1),
}
"""Of which operation so many at most, on PostgreSQL and on Redis; some with those of a notification beside them."""
DELAY_S = 0.075
"""That of a store 150 ms away, in either direction."""


class Counted:
    """
    Counts the round trips of calls: the least of some turns, since the store's own threads ask, too.
    """

    def __init__(self, line):
        self.line, self.trips = line, {}

    def call(self, name, call, *arguments, **more):
        """
        Return what *call* returns, and count its round trips as those of operation *name*.
        """
        before = self.line.trips
        answer = call(*arguments, **more)
        self.trips.setdefault(name, []).append(self.line.trips - before)
        return answer


def turn(store, heir, counted, turn, size):
    """
    Let *size* jobs go through the steps of their lives, and be taken over by the *heir* while they run.
    """
    leases = counted.call("take over", store.acquire, "store")
    epochs = {lease.shard: lease.epoch for lease in leases}

    def under(kind, jobs, *rest):
        return [kind(job, epochs[store.shard_of(job.key)], *rest) for job in jobs]

    def apply(name, writes):
        answers = counted.call(name, store.apply, writes)
        return [answer.job for answer in answers if answer.job is not None]

    sets = [model.Set(model.Job(f"{turn} {i}", 0, 5)) for i in range(size)]
    apply("set", sets)
    marked = [
        replace(write, once=model.Once(f"{turn:016x}{i:016x}", "0", "0" * 32, 60_000)) for i, write in enumerate(sets)
    ]
    apply("set once", marked)
    jobs = apply("set once again", marked)
    jobs = apply("move", [model.Move(job.key, 7) for job in jobs])
    cursors = [Cursor(lease.shard, lease.epoch, (0, 0), 0) for lease in leases]
    sights = counted.call("look", store.look, cursors, EVER, 1_000, with_changes=True)
    assert sum(len(sight.due) for sight in sights) == size
    assert counted.call("look back", store.overdue, list(epochs), EVER, 1_000)
    apply("begin", under(model.Begin, jobs))
    jobs = apply("put off", under(model.Settle, jobs, model.Settled.AGAIN, 1, 9))
    apply("begin", under(model.Begin, jobs))
    apply("end", under(model.Settle, jobs[1:], model.Settled.DONE, 2))
    counted.call("renew", store.renew, "store")
    counted.call("release", store.release, "store")
    taken = counted.call("take over", heir.acquire, "heir")
    assert (len(taken), sum(lease.rescued for lease in taken)) == (len(leases), 1)
    apply("cancel", [model.Cancel(jobs[0].key)])
    jobs = apply("set", [model.Set(model.Job(f"{turn} aside", 0, 5, handler="one"))])
    epochs = {lease.shard: lease.epoch for lease in taken}
    counted.call("set aside", heir.apply, under(model.SetAside, jobs))
    lease = taken[0]
    (job,) = counted.call("take up", heir.take_up, lease.shard, lease.epoch, [("handler", "one")], 10)
    heir.apply([model.Cancel(job.key)])
    heir.release("heir")


@pytest.mark.parametrize(("shards", "size"), [(1, 2), (64, 90)])
def test_steps_take_a_few_round_trips(line_and_url, shards, size):
    """
    Each step takes as many round trips for many shards and jobs as for one.
    """
    line, url = line_and_url
    url = url.replace("?shards=4", "?listen=poll")
    options = f"{url}&shards={shards}"
    with closing(open_store(options)) as store, closing(open_store(options)) as heir:
        counted = Counted(line)
        for number in range(3):
            turn(store, heir, counted, number, size)
    found = {name: min(trips) for name, trips in counted.trips.items()}
    most = {name: counts[url.startswith("redis")] for name, counts in MOST.items()}
    assert found.keys() == most.keys()
    assert {name: trips for name, trips in found.items() if trips > most[name]} == {}


@pytest.mark.slow
def test_a_store_far_away(line_and_url, until):
    """
    A node whose store is 150 ms away fires each job once, renews each lease, and refuses no call.
    """
    line, url = line_and_url
    fired = Counter()
    line.delay_s = DELAY_S
    with Scheduler(url.replace("?shards=4", "?shards=16")) as node, Scheduler(url) as client:
        node.handler("work")(lambda payload: fired.update([payload]))
        node.start()
        for number in range(40):
            client.set(f"{number}", delay=0.5, handler="work", payload=number)
        until(lambda: len(fired) == 40)
        assert set(fired.values()) == {1}
        renewals = node.stats()["leases"]
        assert renewals["failures"] == 0
    line.delay_s = 0.0
