"""
Each step of a node takes few round trips to the server, however many shards and jobs there are.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest
from lent_servers import NUMBERS
from lines import Line

from tickwheel.clock import BootClock
from tickwheel.jobs import model
from tickwheel.scheduler import Scheduler, SetRequest
from tickwheel.stores import Cursor, open_store

EVER = 2**40
MOST = {
    "take over": (2, 8),
    "renew": (2, 3),
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
"""
Maximum number of round trips of each operation, on PostgreSQL and on Redis. Some operations include a notification.
"""
LEASE_S, BAR_MS, SILENT_MS = 10, 500, 5_000
PATIENCE_S = 20


class Counted:
    """
    Counts the round trips of calls.

    The store's own threads also make calls. So a test repeats a step and uses the minimum.
    """

    def __init__(self, line):
        self.line, self.trips = line, {}

    def call(self, name, call, *arguments, **more):
        """
        Make the call, count its round trips under *name*, and return its result.
        """
        before = self.line.trips
        answer = call(*arguments, **more)
        self.trips.setdefault(name, []).append(self.line.trips - before)
        return answer


def turn(store, heir, counted, turn, size):
    """
    Take *size* jobs through all steps of their life, and count the round trips of each step.

    While a job runs, the store object *heir* takes over the shards.
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
    of, home = heir.abilities.partitions, heir.shard_of(jobs[0].key)
    lease = next(each for each in taken if each.shard % of == home % of)
    (job,) = counted.call("take up", heir.take_up, lease.shard, lease.epoch, [("handler", "one")], 10)
    heir.apply([model.Cancel(job.key)])
    heir.release("heir")


@pytest.mark.parametrize(("shards", "size"), [(1, 2), (64, 90)])
def test_steps_take_a_few_round_trips(line_and_url, shards, size):
    """
    A step with many shards and jobs takes as many round trips as a step with one.
    """
    line, url = line_and_url
    url = url.replace("?shards=4", "?listen=poll")
    options = f"{url}&shards={shards}"
    with closing(open_store(options)) as store, closing(open_store(options)) as heir:
        counted = Counted(line)
        for number in range(3 if size > 2 else 9):  # on a busy machine a round may arrive in pieces, which count
            turn(store, heir, counted, number, size)
    found = {name: min(trips) for name, trips in counted.trips.items()}
    most = {name: counts[url.startswith("redis")] for name, counts in MOST.items()}
    assert found.keys() == most.keys()
    assert {name: trips for name, trips in found.items() if trips > most[name]} == {}


class Ahead(BootClock):
    """
    A clock that a test may set forward, so that the test need not wait.
    """

    moved_ns = 0

    def monotonic_ns(self):
        return super().monotonic_ns() + self.moved_ns

    def elapsed_ns(self):
        return super().elapsed_ns() + self.moved_ns

    def wall_ns(self):
        return super().wall_ns() + self.moved_ns


def test_a_rare_write_takes_no_more_round_trips(line_and_url):
    """
    Setting or moving a job with a delay takes no extra round trip to read the time.

    This holds even if the last write was long ago.
    """
    _, url = line_and_url
    clock, store = Ahead(), open_store(url.replace("?shards=4", "?listen=poll"))
    reads, now_ms = Counter(), store.now_ms
    name = "opening"
    store.now_ms = lambda: reads.update([name]) or now_ms()
    with closing(Scheduler(store, clock=clock)) as client:
        client.set("opened", delay=60, target="log")
        for gap_s in (0, 0.1, 3):
            clock.moved_ns += int(gap_s * 1e9)
            for verb in ("set", "move", "set"):
                name = f"{verb} after {gap_s} s"
                getattr(client, verb)("k", delay=60, **({"target": "log"} if verb == "set" else {}))
            name = f"every after {gap_s} s"
            client.set(f"e {gap_s}", every=60, target="log")
    store.close()
    assert reads.keys() == {"opening"}


@pytest.fixture
def partitions(redis_server):
    """
    Return a proxy to a Redis server, and the URL of a store with three partitions behind the proxy.
    """
    line = Line(redis_server.port)
    yield line, f"redis://127.0.0.1:{line.port}/0?prefix=apart{next(NUMBERS)}&partitions=3"
    line.close()


def test_partitions_are_queried_at_the_same_time(partitions):
    """
    A partitioned store takes no more round trips in each partition than an unpartitioned store takes in total.
    """
    line, url = partitions
    with closing(open_store(url)) as store, closing(open_store(url)) as heir:
        counted = Counted(line)
        for number in range(8):
            turn(store, heir, counted, number, 30)
        most = {name: 3 * counts[1] for name, counts in MOST.items()}
        found = {name: min(trips) for name, trips in counted.trips.items()}
        assert {name: trips for name, trips in found.items() if trips > most[name]} == {}
        leases = store.acquire("store")
        cursors = [Cursor(lease.shard, lease.epoch, (0, 0), 0) for lease in leases]
        together = threading.Barrier(3)
        for partition in store.partitions:
            hold(partition, "look", together)
            hold(partition, "leased", together)
        assert len(store.look(cursors, EVER, 10, with_changes=True)) == len(leases)
        assert len(store.renew("store")) == len(leases)


def hold(partition, name, together):
    """
    Make each call of *name* on *partition* wait until all partitions have been called.

    If the partitions are called one after another, the calls time out.
    """
    call = getattr(type(partition), name)

    class Held(type(partition)):
        """
        A partition whose calls wait until all partitions have been called.
        """

    def held(self, *arguments, **more):
        together.wait(PATIENCE_S)
        return call(self, *arguments, **more)

    setattr(Held, name, held)
    partition.__class__ = Held


@pytest.fixture(params=["postgres", "redis", "partitions"])
def far(request):
    """
    Return two proxies to the server of a store, and for each proxy the URL of the store behind it.

    The fixture covers each kind of store.
    """
    if request.param == "partitions":
        line, url = request.getfixturevalue("partitions")
    else:
        line = request.getfixturevalue(f"{request.param}_line")
        own = f"{request.getfixturevalue('database')}?shards=16" if request.param == "postgres" else "0?prefix=far"
        scheme = "postgresql://tick@" if request.param == "postgres" else "redis://"
        url = f"{scheme}127.0.0.1:{line.port}/{own}{'' if request.param == 'postgres' else next(NUMBERS)}"
    other = Line(line._server)
    yield line, f"{url}&lease_s={LEASE_S}", other, f"{url}&lease_s={LEASE_S}".replace(str(line.port), str(other.port))
    other.close()


@pytest.mark.slow
@pytest.mark.parametrize("trip_s", [0.05, 0.15])
def test_a_store_far_away(far, trip_s, until):
    """
    A node with a slow link to its store fires 20 jobs a second, each once.

    Half of them fire within half a second. No renewal and no call fails. If the node dies, another takes over at most
    three seconds after the lease has expired.
    """
    line, url, other, other_url = far
    line.delay_s = other.delay_s = trip_s / 2
    late_ms, calls = {}, Counter()

    def work(payload, firing):
        calls[payload] += 1
        late_ms[payload] = firing.lateness_ms

    node, heir, client = Scheduler(url), Scheduler(other_url), Scheduler(other_url)
    with closing(client), closing(heir), closing(node):
        for scheduler in (node, heir):
            scheduler.handler("work")(work)
        node.start()
        start = time.time() + 4
        client.set_many([SetRequest(f"{n}", at=start + n / 20, handler="work", payload=n) for n in range(100)])
        for number in range(100, 120):
            client.set(f"{number}", delay=0.5, handler="work", payload=number)
        until(lambda: len(late_ms) == 120)
        assert set(calls.values()) == {1}
        assert sorted(late_ms[number] for number in range(100))[50] <= BAR_MS
        assert max(late_ms.values()) <= SILENT_MS
        assert node.stats()["leases"]["failures"] == 0
        heir.start()
        until(lambda: len(client.nodes()) == 2)
        at = time.time() + 1
        client.set_many([SetRequest(f"{n}", at=at, handler="work", payload=n) for n in range(200, 240)])
        line.cut()
        until(lambda: len(late_ms) == 160)
        assert max(late_ms[number] for number in range(200, 240)) <= (LEASE_S + 3) * 1_000
        line.mend()
