"""
The cost of the PostgreSQL store's queries, counted in rows that the server reads.
"""

from __future__ import annotations

from contextlib import closing, contextmanager

import psycopg
import pytest
from sessions import noted_sessions, session_of

from tickwheel.jobs import model
from tickwheel.jobs.rows import row_of
from tickwheel.stores import Cursor, open_store
from tickwheel.stores.postgres._queries import SQL

FAR = 10**9
HERE = {"shards": [0], "instants": [0], "generations": [0]}
EVER = 2**63 - 1
PAGE = {
    "first": "",
    "end": None,
    "last": None,
    "is_dead": False,
    "recurring": False,
    "paused": False,
    "manifest": None,
    "reach": 11,
    "state": None,
    "due_from": 0,
    "due_until": EVER,
    "handler": None,
    "target": None,
    "contains": None,
    "error": None,
    "payload": None,
    "limit": 11,
}


@contextmanager
def filled(postgres, database):
    """
    Yield a session of a store with fifty jobs due soon and five thousand far ahead.

    The server has no statistics about these jobs.
    """
    with noted_sessions() as sessions, closing(open_store(f"{postgres.url(database)}&shards=1&lease_s=60")) as store:
        postgres.execute("ALTER TABLE tickwheel_job SET (autovacuum_enabled = off)", database)
        store.acquire("owner")
        store.apply([model.Set(model.Job(f"near {i}", 0, i)) for i in range(50)])
        store.apply([model.Set(model.Job(f"far {i}", 0, FAR + i)) for i in range(5_000)])
        store.apply([model.Set(model.Job(f"fast {i}", 0, FAR, recurrence="every 5 s", manifest="m")) for i in range(3)])
        yield session_of(store, sessions)


@pytest.fixture
def session(postgres, database):
    """
    Return a session of a filled store, whose statistics the test may change.
    """
    with filled(postgres, database) as session:
        yield session


@pytest.fixture(scope="module")
def reader(postgres):
    """
    Return a session of a filled store, shared by all tests that only read.
    """
    database = postgres.lend()
    with filled(postgres, database) as session:
        yield session
    postgres.take_back(database)


def nodes_of(plan):
    """
    Yield the nodes of a plan.

    An outer node comes before the nodes inside it.
    """
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes_of(inner)


@pytest.mark.parametrize(
    ("name", "values", "at_most"),
    [
        ("jobs_due", (0, EVER, -(2**63), -1, 20), 20),
        ("jobs_due", (0, EVER, FAR + 100, 0, 20), 20),
        ("jobs_due", (0, 1_000, -(2**63), -1, 1_000), 50),
        ("jobs_upcoming", {"since": 0, "until": EVER, "limit": 20}, 20),
        ("jobs_overdue", {"shards": [0], "floors": [-(2**63)], "until": 1_000, "limit": 20}, 20),
        ("jobs_overdue", {"shards": [0], "floors": [-(2**63)], "until": -1, "limit": 20}, 0),
        ("jobs_ahead", {**HERE, "until": 1_000, "limit": 20}, 21),
        ("jobs_ahead", {**HERE, "until": FAR + 20, "limit": 100}, 73),
        ("take_notes", {"owner": "owner", "epochs": [1], "limit": 100, **HERE}, 1),
        ("job_of_key", ("near 7",), 1),
        ("jobs_by_key", (["near 7", "far 7", "nobody"],), 2),
        ("end_of_reach", PAGE, 11),
        ("page", PAGE, 11),
        ("page", {**PAGE, "first": "near 3", "end": "near 4"}, 11),
        ("page", {**PAGE, "is_dead": True, "state": 2}, 1),
        ("page", {**PAGE, "recurring": True, "reach": 10_000}, 3),
        ("end_of_reach", {**PAGE, "recurring": True, "reach": 10_000}, 3),
        ("page", {**PAGE, "manifest": "m", "reach": 10_000}, 3),
        ("end_of_reach", {**PAGE, "manifest": "m", "reach": 10_000}, 3),
        ("page", {**PAGE, "manifest": "another", "reach": 10_000}, 0),
        ("manifests", {"name": "m"}, 1),
    ],
)
def test_queries_read_only_rows_that_they_return(reader, name, values, at_most):
    """
    A query reads at most one row more than it returns, however many jobs are in the future.
    """
    ((explained,),) = reader.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {SQL[name]}", values).fetchall()
    nodes = list(nodes_of(explained[0]["Plan"]))
    read = [node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in nodes]
    assert max(read) <= at_most + 1
    assert {node["Node Type"] for node in nodes}.isdisjoint({"Seq Scan", "Bitmap Heap Scan"})


def test_statements_are_planned_only_at_first(postgres, database):
    """
    A statement for single writes, firings or scans is planned at its first executions, and not at later ones.
    """
    plans = "SELECT name, generic_plans, custom_plans FROM pg_prepared_statements"
    with noted_sessions() as sessions, closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        (lease,) = store.acquire("owner")
        for turn in range(8):
            jobs = [answer.job for answer in store.apply([model.Set(model.Job(f"{turn} {i}", 0, i)) for i in range(3)])]
            store.apply([model.Set(model.Job("one", 0, turn))])
            store.apply([model.Move(jobs[0].key, 7)])
            store.apply([model.Cancel(jobs[0].key)])
            store.apply([model.Begin(job, lease.epoch) for job in jobs[1:]])
            store.apply([model.Settle(job, lease.epoch) for job in jobs[1:]])
            store.look([Cursor(0, lease.epoch, (0, 0), 0)], 10, 10, with_changes=True)
        found = [row for session in sessions if not session.closed for row in session.execute(plans).fetchall()]
    assert len(found) > 8
    assert [name for name, generic, custom in found if custom or not generic] == []


@pytest.mark.parametrize(
    "filters", [{"state": model.State.DEAD}, {"recurring": True}, {"manifest": "m"}, {"paused": True}]
)
def test_a_repeated_page_goes_by_an_index(postgres, database, rows_read, filters):
    """
    A query for a page of jobs uses the index of its filter, even after many executions.
    """
    with filled(postgres, database), closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        read = rows_read()
        for _ in range(12):
            store.page(model.JobQuery(limit=10, **filters))
        assert len(read) == 12
        assert max(read) <= 12 * 5  # the server's counter includes the earlier pages


def test_statements_of_a_scan(postgres, database, monkeypatch):
    """
    A scan of sixteen shards is one statement.

    If other clients may have written, the scan takes two statements.
    """
    with closing(open_store(f"{postgres.url(database)}&shards=16")) as store:
        cursors = [Cursor(lease.shard, lease.epoch, (0, 0), 0) for lease in store.acquire("owner")]
        assert len(cursors) == 16
        names, execute = {text: name for name, text in SQL.items()}, psycopg.Connection.execute
        said = []

        def noting(self, query, *rest, **more):
            said.extend(names[query] for query in [query] if query in names)
            return execute(self, query, *rest, **more)

        monkeypatch.setattr(psycopg.Connection, "execute", noting)
        store.look(cursors, EVER, 64, with_changes=True)
        store.look(cursors, EVER, 64, with_changes=False)
    assert said[:3] == ["take_notes", "jobs_ahead", "jobs_ahead"]


@pytest.fixture
def pages(monkeypatch):
    """
    Return a list to which each query for jobs appends the number of cache pages that it read.
    """
    read = []
    execute = psycopg.Connection.execute

    def explaining(self, query, values=None, **more):
        if isinstance(query, str) and query in (SQL["jobs_first"], SQL["jobs_overdue"]):
            ((plan,),) = execute(self, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", values).fetchall()
            read.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
        return execute(self, query, values, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", explaining)
    return read


def test_dead_rows_are_read_once(postgres, database, pages):
    """
    An open snapshot keeps old row versions of finished jobs in the index, before the pending jobs.

    Only the first scan reads these dead rows.
    """
    store = open_store(f"{postgres.url(database)}&shards=1")
    (lease,) = store.acquire("owner")
    with psycopg.connect(host=str(postgres.folder), user="tick", dbname=database) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT FROM tickwheel_job")
        for start in range(0, 5_000, 1_000):
            sets = [model.Set(model.Job(f"{i}", 0, i)) for i in range(start, start + 1_000)]
            jobs = [answer.job for answer in store.apply(sets)]
            store.apply([model.Begin(job, lease.epoch) for job in jobs])
            store.apply([model.Settle(job, lease.epoch) for job in jobs])
        (last,) = store.apply([model.Set(model.Job("last", 0, FAR))])
        for look in (lambda: store.upcoming(0, EVER, 1) == [last.job], lambda: store.overdue([0], FAR, 200) == {}):
            store._floors.forget()
            assert [look() for _ in range(3)] == [True] * 3
            first, second, third = pages[-3:]
            assert first > 100
            assert max(second, third) < 20
        (early,) = store.apply([model.Set(model.Job("early", 0, 7))])
        assert store.upcoming(0, EVER, 1) == [early.job]
        assert store.overdue([0], FAR, 200) == {0: [early.job]}
    store.close()


@pytest.mark.parametrize("name", ["begin_jobs", "end_jobs"])
def test_writes_of_a_firing_use_the_index_of_due_jobs(reader, name):
    """
    Claims and acknowledgements find their jobs in the index of due jobs.

    Jobs with the same due time are adjacent there.
    """
    ((explained,),) = reader.execute(f"EXPLAIN (FORMAT JSON) {SQL[name]}", ([0], [7], [8], 1)).fetchall()
    nodes = list(nodes_of(explained[0]["Plan"]))
    assert {node.get("Index Name") for node in nodes} == {None, "tickwheel_job_due"}


OTHER_STATE = (
    "UPDATE tickwheel_job SET state = {other}; ANALYZE tickwheel_job; UPDATE tickwheel_job SET state = {state}"
)
EMPTY = "ANALYZE tickwheel_job; UPDATE pg_class SET reltuples = 0 WHERE relname LIKE 'tickwheel_job%'"


@pytest.mark.parametrize("past", [OTHER_STATE, EMPTY])
@pytest.mark.parametrize(
    ("statement", "state"),
    [("begin_jobs", 0), ("end_jobs", 1), ("rescue_jobs", 1), ("leave_tails", 1), ("update_jobs", 0)],
)
def test_bulk_writes_with_outdated_statistics(session, statement, state, past):
    """
    Bulk writes find each job through an index, even if the server's statistics are older than the jobs.
    """
    values = [[0] * 2_000, [FAR + i for i in range(2_000)], [51 + i for i in range(2_000)]]
    if statement in {"begin_jobs", "end_jobs"}:
        values.append(2_000)
    if statement == "rescue_jobs":
        values = {"owner": "owner", "slot": 7}
    if statement == "leave_tails":
        values = {"shards": [0], "owner": "owner"}
    if statement == "update_jobs":
        jobs = [row_of(model.Job(f"far {i}", 51 + i, FAR - i)) for i in range(2_000)]
        values = [*map(list, zip(*jobs, strict=True)), [0] * 2_000]
    with session.transaction(force_rollback=True):
        session.execute("UPDATE tickwheel_job SET state = %s", (state,))
        session.execute("UPDATE tickwheel_shard SET former = ''")
        keys = [f"far {i}" for i in range(2_000)]
        session.execute("INSERT INTO tickwheel_begun VALUES ('owner', 0, %s), ('gone', 0, %s)", (keys, keys))
        session.execute(past.format(other=1 - state, state=state))
        query = f"EXPLAIN (ANALYZE, FORMAT JSON) {SQL[statement]}"
        ((explained,),) = session.execute(query, values).fetchall()
    read = [
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0))
        * node["Actual Loops"]
        for node in nodes_of(explained[0]["Plan"])
    ]
    assert max(read) <= (4_000 if statement == "rescue_jobs" else 2_000), explained  # both lists have these keys


@pytest.mark.parametrize("past", ["SELECT 1", EMPTY])
def test_the_check_of_a_draining_shard_reads_one_row(session, past):
    """
    The check for jobs in a draining shard reads at most one row of the shard, whatever statistics the server has.
    """
    with session.transaction(force_rollback=True):
        session.execute("INSERT INTO tickwheel_shard (shard, owner) VALUES (1000001, 'one'), (1000002, 'one')")
        session.execute("UPDATE tickwheel_job SET shard = 1000001")
        session.execute(past)
        query = f"EXPLAIN (ANALYZE, FORMAT JSON) {SQL['end_tails']}"
        ((explained,),) = session.execute(query, ("one",)).fetchall()
        assert session.execute("SELECT shard FROM tickwheel_shard WHERE shard > 0").fetchall() == [(1000001,)]
    nodes = [node for node in nodes_of(explained[0]["Plan"]) if node.get("Relation Name") == "tickwheel_job"]
    assert [node["Index Name"] for node in nodes] == ["tickwheel_job_due"]
    assert all(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 1 for node in nodes)


@pytest.mark.parametrize("shards", [1, 64])
def test_a_takeover_of_many_shards_takes_one_round_trip(postgres, database, monkeypatch, shards):
    """
    A standby takes over any number of shards in one round trip.

    So even over a slow link a takeover takes less time than the lease lasts.
    """
    store = open_store(f"{postgres.url(database)}&shards={shards}")
    asked = []
    monkeypatch.setattr(
        "psycopg.Connection.execute",
        lambda self, *words, execute=psycopg.Connection.execute, **more: (
            asked.append(words[0]) or execute(self, *words, **more)
        ),
    )
    leases = store.acquire("owner")
    store.close()
    assert len(leases) == shards
    before_close = asked.index("COMMIT") + 1
    assert before_close <= 16
