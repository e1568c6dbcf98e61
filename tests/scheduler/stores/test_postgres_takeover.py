"""
A takeover of shards on PostgreSQL does not wait for locked rows in these shards.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import closing, suppress

import pytest

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError
from tickwheel.stores import Cursor, open_store

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

PATIENCE_S = 30.0
EVER = 2**63 - 1


@pytest.fixture
def left(postgres, database, open_database):
    """
    Return two stores and a connection that can lock rows.

    The first store's lease on its only shard has expired. Three jobs run there, and a new job has been announced.
    """
    first, second = open_database("&shards=1"), open_database("&shards=1")
    (lease,) = first.acquire("first")
    jobs = [answer.job for answer in first.apply([model.Set(model.Job(key, 0, 7)) for key in "abc"])]
    first.apply([model.Begin(job, lease.epoch) for job in jobs])
    second.apply([model.Set(model.Job("noted", 0, 7))])
    postgres.execute("UPDATE tickwheel_shard SET lease_until = 0", database)
    postgres.execute("UPDATE tickwheel_node SET seen_until = 0", database)
    with psycopg.connect(host=str(postgres.folder), user="tick", dbname=database) as other:
        yield first, second, other


def states(store):
    return {job.key: job.state.value for job in store.page(model.JobQuery()).jobs}


@pytest.mark.parametrize("paused", [False, True])
def test_locked_jobs_are_rescued_later(left, paused):
    """
    If running jobs are locked during a takeover, the new owner recovers them at a later renewal.

    The new owner is then notified of the recovered jobs.
    """
    _, second, other = left
    other.execute("SELECT FROM tickwheel_job WHERE key IN ('a', 'b') FOR UPDATE")
    other.execute("SET LOCAL lock_timeout = '1s'")
    (lease,) = second.acquire("second")
    assert lease.rescued == 1
    assert states(second) == {"a": "running", "b": "running", "c": "pending", "noted": "pending"}
    assert [lease.epoch for lease in second.renew("second")] == [lease.epoch]
    assert states(second)["a"] == "running"
    cursor = Cursor(lease.shard, lease.epoch, (100, 0), 0)
    second.look([cursor], EVER, 10, with_changes=True)
    other.execute("DELETE FROM tickwheel_job WHERE key = 'b'")
    if paused:
        other.execute("UPDATE tickwheel_job SET pause = %s WHERE key = 'a'", ('[1, "me", ""]',))
    other.commit()
    second.renew("second")
    assert second.get("a").state is model.State.PENDING
    assert second.wait_for_change(0.0)
    (sight,) = second.look([cursor], EVER, 10, with_changes=True)
    assert [job.key for job in sight.changed] == ([] if paused else ["a"])
    assert [record.outcome for record in second.history("a", None, 10)] == ["cut_off"]
    assert second.history("b", None, 10) == []
    second.renew("second")
    assert not second.wait_for_change(0.0)


def test_locked_notes_are_left(left):
    """
    Rows that announce changed jobs may be locked by a former owner. The next owner does not wait for these rows.
    """
    first, second, other = left
    other.execute("DELETE FROM tickwheel_note")
    (lease,) = second.acquire("second")
    assert lease.rescued == 3
    other.rollback()
    (sight,) = second.look([Cursor(0, lease.epoch, (100, 0), 0)], EVER, 10, with_changes=True)
    assert [job.key for job in sight.changed] == ["noted"]
    assert first.renew("first") == []


def test_notes_of_one_scan_are_limited(open_database, monkeypatch):
    """
    One scan reads a limited number of the rows that announce changed jobs.

    The scan reports whether more such rows remain.
    """
    monkeypatch.setattr("tickwheel.stores.postgres._look._NOTES_MAX", 40)
    owner, caller = open_database("&shards=4"), open_database("&shards=4")
    cursors = [Cursor(lease.shard, lease.epoch, (100, 0), 0) for lease in owner.acquire("owner")]
    caller.apply([model.Set(model.Job(f"{i}", 0, 7)) for i in range(100)])
    assert owner.wait_for_change(PATIENCE_S)  # the commit above wakes it
    found, has_more = [], True
    while has_more:
        found.append([job.key for sight in owner.look(cursors, 0, 0, with_changes=True) for job in sight.changed])
        has_more = owner.wait_for_change(0.0)
    assert len(found) > 2
    assert max(map(len, found)) <= 40
    keys = [key for part in found for key in part]
    assert sorted(keys) == sorted(f"{i}" for i in range(100))


def test_a_new_note_does_not_wait_behind_old_ones(open_database, monkeypatch):
    """
    Each scan also takes the newest announcements of changed jobs in a shard.

    Otherwise a new announcement would wait behind a million old ones, written while the shard had no owner.
    """
    monkeypatch.setattr("tickwheel.stores.postgres._look._NOTES_MAX", 40)
    owner, caller = open_database("&shards=4"), open_database("&shards=4")
    cursors = [Cursor(lease.shard, lease.epoch, (100, 0), 0) for lease in owner.acquire("owner")]
    caller.apply([model.Set(model.Job(f"old {i}", 0, 7)) for i in range(200)])
    caller.apply([model.Set(model.Job(f"new {i}", 0, 7)) for i in range(5)])
    changed = {job.key for sight in owner.look(cursors, 0, 0, with_changes=True) for job in sight.changed}
    assert {f"new {i}" for i in range(5)} <= changed


def owned(store):
    """
    Return the owners of all shards.
    """
    return {shard.owner for shard in store.shards()}


KILLED = """
    import sys
    from tickwheel.stores import open_store
    store = open_store(sys.argv[1])
    store.acquire("killed")
    print("up", flush=True)
    sys.stdin.read()
"""


def test_the_shards_of_a_killed_owner_are_taken_over_at_once(postgres, database, open_database, until):
    """
    The first node that asks gets the shards of a killed process at once, long before the leases expire.
    """
    url = f"{postgres.url(database)}&shards=4&lease_s=3600"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        follower = open_database("&shards=4&lease_s=3600")
        before = {shard.number: shard.epoch for shard in follower.shards()}
        assert follower.acquire("follower") == []
        assert owned(follower) == {"killed"}
        process.kill()
    leases = until(lambda: follower.acquire("follower"))  # once the server has noticed
    assert len(leases) == 4
    assert all(lease.epoch > before[lease.shard] for lease in leases)


def test_a_restarted_server_frees_no_lease(make_postgres):
    """
    After a server restart no owner has a session, but living owners still keep their leases.
    """
    server = make_postgres()
    with closing(open_store(f"{server.url('postgres')}&shards=4&lease_s=3600")) as first:
        leases = first.acquire("first")
        server.stop()
        server.start()
        with closing(open_store(f"{server.url('postgres')}&shards=4&lease_s=3600")) as second:
            assert second.acquire("second") == []
            with suppress(StoreError):  # on a connection that the server has ended
                first.renew("first")
            assert [lease.epoch for lease in first.renew("first")] == [lease.epoch for lease in leases][:2]


def test_an_owner_without_a_subscription_keeps_its_leases(postgres, database, open_database):
    """
    If an owner's subscription to notifications has ended, the owner keeps its leases.

    After its next renewal, other nodes wait until the leases expire. They do not take over the shards at once.
    """
    first, second = open_database("&shards=4&lease_s=3600"), open_database("&shards=4&lease_s=3600")
    assert len(first.acquire("first")) == 4
    first._listener.stop()  # this also ends its session
    first.renew("first")
    assert second.acquire("second") == []
    assert postgres.execute("SELECT guard FROM tickwheel_node WHERE owner = 'first'", database) == [(None,)]


def test_a_takeover_deletes_few_of_many_notes(postgres, database, open_database):
    """
    However many announcements of changed jobs clients have left, a takeover deletes at most 10,000 of them.
    """
    store = open_database("&shards=4&lease_s=60")
    notes = (
        "INSERT INTO tickwheel_note (shard, generation, key) SELECT g % 4, g, g::text FROM generate_series(1, 14000) g"
    )
    postgres.execute(notes, database)
    assert len(store.acquire("owner")) == 4
    assert postgres.execute("SELECT count(*) FROM tickwheel_note", database) == [(4_000,)]
