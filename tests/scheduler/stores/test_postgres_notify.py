"""
Notifications of the PostgreSQL store: a write wakes the owners of its shards.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing

import pytest

from tickwheel.jobs import model
from tickwheel.scheduler import Scheduler
from tickwheel.stores import make_store, open_store
from tickwheel.stores.postgres._batch import ASIDE
from tickwheel.stores.postgres._queries import SQL

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

PATIENCE_S = 30.0
LISTENERS = "FROM pg_stat_activity WHERE query = 'LISTEN tickwheel' AND datname = current_database()"


@pytest.fixture
def make(postgres, database):
    """
    Return a function that opens stores in *database*.

    The fixture closes them at the end.
    """
    opened = []

    def make_one(options=""):
        opened.append(open_store(f"{postgres.url(database)}{options}"))
        return opened[-1]

    yield make_one
    for store in opened:
        store.close()


@pytest.fixture
def payload(postgres, database):
    """
    Return a function that returns the payload of the next notification.
    """
    with psycopg.connect(postgres.url(database), autocommit=True) as connection:
        connection.execute("LISTEN tickwheel")
        arrived = []

        def following():
            if not arrived:  # several may arrive together
                arrived.extend(connection.notifies(timeout=PATIENCE_S, stop_after=1))
            return arrived.pop(0).payload

        yield following


def key_in(store, shard):
    return next(key for key in map(str, range(10_000)) if store.shard_of(key) == shard)


def set_in(store, shard):
    """
    Set a job in *shard* and return it.
    """
    return store.apply([model.Set(model.Job(key_in(store, shard), 0, 0))])[0].job


def test_owners_of_other_shards_do_not_scan(postgres, database, monkeypatch, until):
    """
    If a client sets a job, only the owner of the job's shard wakes up, and that owner reads the shard once.

    The other three owners do not scan.
    """
    looks = Counter()
    execute = psycopg.Connection.execute

    def counting(self, query, values=None, **more):
        if query == SQL["take_notes"]:
            looks[values["owner"]] += 1
        return execute(self, query, values, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", counting)
    url = postgres.url(database)
    with ExitStack() as stack:
        stores = [make_store(f"{url}&shards=4&lease_s=6") for _ in range(4)]
        owners = [stack.enter_context(Scheduler(store)) for store in stores]
        client = stack.enter_context(closing(Scheduler(url)))
        until(lambda: [len(owner.stats()["shards"]) for owner in owners] == [1] * 4)
        for shard in range(4):
            client.set(key_in(stores[0], shard), delay=3600, handler="h")
            until(lambda shard=shard: looks.total() > shard)
        until(lambda: looks == {owner.stats()["owner"]: 1 for owner in owners}, lambda: f"{looks}")


@pytest.mark.parametrize(
    ("sent", "is_heard"),
    [("0", True), ("7,0", True), (f"7,{ASIDE}", True), ("", True), ("10", False), ("1,20", False), ("others", False)],
)
def test_which_payloads_an_owner_reads(make, postgres, database, sent, is_heard):
    """
    An owner acts on a notification whose payload names one of its shards, or announces unroutable jobs.

    It also acts on the empty payload of older nodes.
    """
    store = make("&shards=1")
    store.acquire("owner")
    postgres.execute(f"NOTIFY tickwheel, '{sent}'", database)
    assert store.wait_for_change(PATIENCE_S) is is_heard


def test_each_write_names_its_shards(make, payload):
    """
    If a client sets jobs or requests a withdrawal, the payload of the notification names the shards.

    Older nodes wake up for any payload.
    """
    owner, client = make("&shards=3"), make()
    epochs = {lease.shard: lease.epoch for lease in owner.acquire("owner")}
    jobs = []
    for shard in (1, 2):
        jobs.append(set_in(client, shard))
        assert payload() == f"{shard}"
    owner.apply([model.Begin(job, epochs[shard]) for shard, job in enumerate(jobs, 1)])
    client.request_withdrawal(jobs)
    assert {*payload().split(",")} == {"1", "2"}
    aside = set_in(owner, 0)
    owner.apply([model.SetAside(aside, epochs[0])])
    assert payload() == f"{ASIDE}"


def test_jobs_due_later_are_announced_together(make, payload, monkeypatch):
    """
    Single set and move requests for jobs that are due in an hour share a notification.

    The notification is delayed until a job that is due soon is set.
    """
    monkeypatch.setattr("tickwheel.stores.postgres._listener._MERGED_S", PATIENCE_S * 100)
    _, client = make("&shards=16"), make()
    later = client.now_ms() + 3_600_000
    client.apply([model.Set(model.Job("first", 0, later))])
    found = [payload()]
    keys = [key_in(client, shard) for shard in range(16)]
    for key in keys:
        client.apply([model.Set(model.Job(key, 0, later))])
        client.apply([model.Move(key, later + 1)])
    client.apply([model.Move(keys[7], 0)])
    while {int(shard) for each in found for shard in each.split(",")} != {*range(16)}:
        found.append(payload())
    assert len(found) <= 4  # two may have been sent before the thread began to wait


def test_the_wait_for_more_jobs_ends(make, payload, monkeypatch):
    """
    A job that is not due soon is announced after a fixed delay, even if no other write follows.
    """
    monkeypatch.setattr("tickwheel.stores.postgres._listener._MERGED_S", 0.01)
    _, client = make("&shards=1"), make()
    later = client.now_ms() + 3_600_000
    for number in range(20):
        client.apply([model.Set(model.Job(f"{number}", 0, later))])
        assert payload() == "0"


def test_a_callers_transaction_names_its_shards(make, postgres, database, payload):
    """
    A job set within a caller's transaction is announced with its shard after the commit.
    """
    client = make("&shards=3")
    with psycopg.connect(postgres.url(database)) as connection:
        client.join(connection, [model.Set(model.Job(key_in(client, 2), 0, 0))])
        set_in(client, 1)
        assert payload() == "1"
        connection.commit()
        assert payload() == "2"


def test_more_shards_than_a_payload_can_name(make, payload):
    """
    The payload of a notification can name a limited number of shards.

    If a write concerns more shards, the payload is empty, and all owners wake up.
    """
    store = make()
    store._notify({*range(1_000)})
    store._notify({*range(10_000)})
    payloads = [payload()]
    while payloads[-1]:
        payloads.append(payload())
    assert len(payloads) <= 2


def test_notifications_follow_the_owner(make, until):
    """
    After a hand-over or a takeover, writes wake the new owner.

    The former owner is woken only for shards that it still has.
    """
    former, heir, client = make("&shards=2&lease_s=2"), make("&lease_s=60"), make()
    former.acquire("former")
    heir.acquire("heir")
    (kept,), (moved,) = former.renew("former"), heir.acquire("heir")
    for lease, owner in ((moved, heir), (kept, former)) * 3:
        set_in(client, lease.shard)
        until(lambda owner=owner: owner.wait_for_change(PATIENCE_S))
    until(lambda: len(heir.acquire("heir")) == 2)  # the former owner does not renew
    set_in(client, kept.shard)
    assert until(lambda: heir.wait_for_change(PATIENCE_S))


def test_a_listener_that_lost_its_session(make, postgres, database, until):
    """
    If the session of an owner has ended, the owner subscribes to notifications again, and scans the store.

    Afterwards it gets the notifications of its own shards only.
    """
    store = make("&shards=1")
    store.acquire("owner")
    gone = postgres.execute(f"SELECT pg_terminate_backend(pid) {LISTENERS}", database)
    assert gone == [(True,)]
    assert until(lambda: store.wait_for_change(PATIENCE_S))
    until(lambda: store.wait_for_change(0.0) is False and postgres.execute(f"SELECT pid {LISTENERS}", database))
    postgres.execute("NOTIFY tickwheel, '7'", database)
    assert store.wait_for_change(PATIENCE_S) is False
    set_in(make(), 0)
    assert until(lambda: store.wait_for_change(PATIENCE_S))


CLOSED_LATE = """
import builtins, os, sys, threading
from tickwheel.stores import open_store

store = open_store(sys.argv[1])
store.acquire("owner")
waits = threading.Event()

def wait():
    waits.set()
    store.wait_for_change(3600)

class Closing:
    def __del__(self):
        store.close()
        os.write(1, b"closed")

threading.Thread(target=wait, daemon=True).start()
waits.wait()
builtins.kept = Closing()
"""


def test_a_close_at_the_end_of_the_interpreter(postgres, database):
    """
    A close at the end of the interpreter, for example in a destructor, does not wait for the listening thread.

    This thread is a daemon thread, and no longer runs at that time.
    """
    command = [sys.executable, "-c", CLOSED_LATE, postgres.url(database)]
    ended = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S)
    assert ended.stdout == b"closed"


def test_an_owner_that_polls_does_not_listen(make, postgres, database):
    """
    With `listen=poll` an owner does not listen, but it still announces its writes to other owners.
    """
    polling, other = make("&shards=2&listen=poll"), make()
    polling.acquire("polling")
    other.acquire("other")
    polling.renew("polling")
    (lease,) = other.acquire("other")
    assert len(postgres.execute(f"SELECT pid {LISTENERS}", database)) == 1
    set_in(polling, lease.shard)
    assert other.wait_for_change(PATIENCE_S)
    set_in(other, 1 - lease.shard)
    assert polling.wait_for_change(0.0) is polling.abilities.has_notify is False
