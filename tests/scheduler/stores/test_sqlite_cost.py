"""
The cost of the SQLite store's statements, counted in steps of its virtual machine.
"""

from __future__ import annotations

import random
import re
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
from sqlite_files import noted_connections, pages_logged, rows, statements_of, steps_of, value

from tickwheel.jobs import model
from tickwheel.stores import Cursor, LaneSet
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite._queries import SQL, for_keys, jobs_by_key, paging

FAR = 10**9
IN_A_SLOT = 4 * 10**12
"""A due time that is far in the future by the real clock, so the job is stored in a slot (see `test_sqlite_far`)."""
KEYS = (("keys_of_shelf", (-1,)), ("keys_of_shelf", (-3, 0, 1, 7)), ("running_keys",), ("recurring_keys",))
EVER = 2**63 - 1


@pytest.fixture
def made():
    """
    Return a list of the connections that stores make.
    """
    with noted_connections() as made:
        yield made


@pytest.fixture
def store(tmp_path, made, weighed):  # noqa: ARG001  no thread beside it takes steps
    """
    Return an open store with an owner and a hundred jobs due soon.
    """
    store = SqliteStore(tmp_path / "jobs.db")
    store.open()
    store.acquire("owner")
    store.apply([model.Set(model.Job(f"near {i}", 0, i)) for i in range(100)])
    yield store
    store.close()


def add_far(store, count, first=FAR):
    """
    Set *count* jobs that are due far in the future.
    """
    store.apply([model.Set(model.Job(f"far {i}", 0, first + i)) for i in range(count)])


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.due(0, 1_000, None, 50),
        lambda store: store.due(0, EVER, (50, 0), 20),
        lambda store: store.look([Cursor(0, 1, (50, 0), 0)], 1_000, 20, with_changes=True),
        lambda store: store.count(),
        lambda store: store.get("near 7"),
        lambda store: store.page(model.JobQuery(prefix="near", limit=10)),
        lambda store: store.page(model.JobQuery(state=model.State.RUNNING)),
        lambda store: store.page(model.JobQuery(state=model.State.DEAD)),
        lambda store: store.page(model.JobQuery(recurring=True)),
        lambda store: store.apply([model.Move("near 3", 3)]),
        lambda store: store.apply([model.Set(model.Job("near 4", 0, 4))]),
        lambda store: store.release("owner") or store.acquire("owner"),
    ],
    ids=[
        "due",
        "due after",
        "look",
        "count",
        "get",
        "prefix",
        "running",
        "dead",
        "recurring",
        "move",
        "set",
        "acquire",
    ],
)
@pytest.mark.parametrize("first", [FAR, IN_A_SLOT])
def test_future_jobs_cost_nothing(store, made, call, first):
    """
    With ten thousand future jobs, a call takes as many steps as with ten future jobs.

    Only the lookup of a key in a sorted list on disk takes more steps.
    """
    store.count()
    add_far(store, 10, first)
    before = steps_of(made, lambda: call(store))
    add_far(store, 10_000, first)
    assert steps_of(made, lambda: call(store)) <= before + 40  # the lookup takes 35 with SQLite 3.53


def test_empty_key_partitions_cost_a_large_batch_nothing(store, made):
    """
    A large batch takes fewer steps if there are no dead, paused or unroutable jobs.
    """
    keys = [f"k{number}" for number in range(200)]
    before = steps_of(made, lambda: store.apply([model.Cancel(key) for key in keys]))
    for state in ("dead", "paused", "aside"):
        put(store, state, f"one {state}")
    assert steps_of(made, lambda: store.apply([model.Cancel(key) for key in keys])) > before + 3 * len(keys)


@pytest.mark.parametrize("state", ["near", "far", "running", "dead", "paused", "aside"])
def test_a_large_batch_finds_the_only_job_of_a_key_partition(store, state):
    """
    A large batch looks up its keys only in partitions of the key table that are not empty.

    It finds a job even if the job's key is the only one in its partition.
    """
    put(store, state, "one")
    answers = store.apply([model.Move(key, 5) for key in ["one", *(f"none {number}" for number in range(100))]])
    expected = {"running": model.Outcome.TOO_LATE, "dead": model.Outcome.NOT_FOUND}.get(state, model.Outcome.MOVED)
    assert answers[0].outcome is expected
    assert answers[0].job.key == "one"
    assert {answer.job for answer in answers[1:]} == {None}


def put(store, state, key):
    """
    Store one job in *state*. The state determines the partition of the key table in which its key is stored.
    """
    epoch = store.renew("owner")[0].epoch
    (answer,) = store.apply([model.Set(model.Job(key, 0, FAR * 10_000 if state == "far" else 1))])
    if state in {"running", "dead"}:
        store.apply([model.Begin(answer.job, epoch)])
    if state == "dead":
        store.apply([model.Settle(answer.job, epoch, model.Settled.DEAD, 1, error="x")])
    if state == "paused":
        store.apply([model.SetPause(key, "me", "")])
    if state == "aside":
        store.apply([model.SetAside(answer.job, epoch)])


def test_dead_jobs_cost_nothing(store, made):
    """
    The query for due jobs does not read dead jobs.
    """
    epoch = store.renew("owner")[0].epoch
    before = steps_of(made, lambda: store.due(0, 1_000, None, 50))
    dying = [answer.job for answer in store.apply([model.Set(model.Job(f"dead {i}", 0, -i)) for i in range(2_000)])]
    store.apply([model.Begin(job, epoch) for job in dying])
    store.apply([model.Settle(job, epoch, model.Settled.DEAD, 1, error="x") for job in dying])
    assert steps_of(made, lambda: store.due(0, 1_000, None, 50)) <= before + 15


def test_near_jobs_share_pages(tmp_path):
    """
    A commit of near jobs logs about one page for five jobs, however many jobs are in the future.
    """
    dice = random.Random(7)

    def far(count):
        return [model.Set(model.Job(f"{dice.getrandbits(64):x}", 0, FAR + dice.randrange(FAR))) for _ in range(count)]

    def near():
        store.apply([model.Set(model.Job(f"{dice.getrandbits(64):x}", 0, 5_000, bytes(100))) for _ in range(1_000)])

    with closing(SqliteStore(tmp_path / "jobs.db")) as store:  # no owner, because an owner's thread also moves the log
        store.open()
        for count in (10, 10_000):
            store.apply(far(count))
            assert pages_logged(store.path, near) < 200
        assert pages_logged(store.path, lambda: store.apply(far(100))) > 120


def test_running_jobs_cost_nothing(store, made):
    """
    The query for due jobs does not read running jobs, even if they were due earlier than all others.
    """
    next_due = partial(store.upcoming, 0, EVER, 1)
    add_far(store, 1)
    next_due()
    before = steps_of(made, next_due)
    store.apply([model.Set(model.Job(f"run {i}", 0, 100 + i)) for i in range(3_000)])
    while due := store.due(0, FAR, None, 1_000):
        store.apply([model.Begin(job, 1) for job in due])
    assert [job.key for job in next_due()] == ["far 0"]
    assert store.count()["running"] == 3_100
    assert steps_of(made, next_due) <= before + 15


def fail_and_retry(store, first, _path):
    """
    Fail the attempt of *first*, a running job, so that it is retried.
    """
    store.apply([model.Settle(first, 1, model.Settled.AGAIN, 1)])


def replay(store, first, _path):
    """
    Let the job *first* become a dead letter, and replay it.
    """
    store.apply([model.Settle(first, 1, model.Settled.DEAD, 1, error="x")])
    store.apply([model.Replay(first.key, 3)])


def set_aside_and_take_up(store, _first, _path):
    """
    Mark a job as unroutable, and claim it later.
    """
    early = store.apply([model.Set(model.Job("early", 0, 3, target="t", handler="h"))])[0].job
    store.apply([model.SetAside(early, 1)])
    store.apply([model.Begin(store.get("near 7"), 1)])
    assert value(store.path, "SELECT floor FROM tickwheel_ledger") == 8
    assert len(store.take_up(0, 1, [("t", "h")], 10)) == 1


def set_elsewhere(_store, _first, path):
    """
    Set a job through another store object.
    """
    with closing(SqliteStore(path)) as client:
        client.open()
        client.apply([model.Set(model.Job("early", 0, 3))])


def change_hands(store, _first, _path):
    """
    Let another owner take over the store and recover the running jobs.
    """
    store.release("owner")
    store.acquire("other")


@pytest.mark.parametrize(
    "call",
    [
        lambda store, *_: store.apply([model.Set(model.Job("early", 0, 3))]),
        lambda store, *_: store.apply([model.Set(model.Job("early", 0, 3, recurrence="every 5 s"))]),
        lambda store, *_: store.apply([model.Move("near 50", 3)]),
        fail_and_retry,
        replay,
        set_aside_and_take_up,
        set_elsewhere,
        change_hands,
    ],
    ids=["set", "recurring", "move", "retry", "replay", "take up", "elsewhere", "rescue"],
)
def test_every_pending_job_is_found(store, tmp_path, call):
    """
    If a job becomes pending and is due before all other pending jobs, the next scan finds it.

    This holds whatever made the job pending.
    """
    first, *others = store.due(0, 7, None, 10)
    store.apply([model.Begin(job, 1) for job in (first, *others)])
    assert value(store.path, "SELECT floor FROM tickwheel_ledger") == 7
    assert [job.due_at for job in store.due(0, EVER, None, 1)] == [7]
    call(store, first, tmp_path / "jobs.db")
    (found,) = store.due(0, EVER, None, 1)
    assert found.due_at <= 3
    assert [found] == store.upcoming(0, EVER, 1) == store.due(0, EVER, (found.due_at, found.generation - 1), 1)


def test_a_scan_costs_the_rows_that_it_passes(store, made):
    """
    A scan passes over the jobs of a crowded lane.

    The number of its steps depends on the scan's row limit, not on the number of jobs in the lane.
    """
    (lease,) = store.renew("owner")
    crowd = LaneSet(names=("handler:crowd",))
    cursor, steps = Cursor(0, lease.epoch, (400, 0), 0), []

    def scan():
        return store.scan([cursor], 1_000, 50, crowd, inside=False, rows=1_000)

    for first in (0, 2_000):
        numbers = range(first, first + 2_000)
        store.apply([model.Set(model.Job(f"crowd {i}", 0, 500, handler="crowd")) for i in numbers])
        steps.append(steps_of(made, scan))
        assert [(found.due, found.reached[0]) for found in scan()] == [([], 500)]
    assert steps[1] <= steps[0] + 40
    assert steps[1] < 1_000 * 110


def test_no_statement_scans(store):
    """
    Every statement finds its jobs by a key.

    No plan contains a full scan of the jobs, keys or notes.
    """
    partial_ones = {"page", "end_of_reach", "keys_of_shelf", "jobs_by_key", "delete_keys", "delete_stale_keys"}
    named = [sql for name, sql in SQL.items() if name not in partial_ones]
    named += [
        jobs_by_key(16),
        jobs_by_key(16, "?"),
        for_keys("delete_keys", 25),
        for_keys("delete_stale_keys", 25),
        *(paging(name, *keys) for name in ("page", "end_of_reach") for keys in KEYS),
    ]
    plans = [row[3] for sql in named for row in rows(store.path, f"EXPLAIN QUERY PLAN {sql}", anything(sql))]
    assert len(plans) > 20
    assert [plan for plan in plans if re.match(r"SCAN tickwheel_(job|key|note)", plan)] == []


def test_recurring_jobs_have_an_index(store):
    """
    Recurring jobs are listed through their own index, which contains no one-time job.
    """
    far = [model.Job(f"every {i}", 0, FAR + i, recurrence="every 5 s") for i in range(3)]
    store.apply([model.Set(job) for job in far])
    sql = SQL["recurring_keys"]
    plans = [row[3] for row in rows(store.path, f"EXPLAIN QUERY PLAN {sql}", anything(sql))]
    assert plans == ["SEARCH tickwheel_job USING INDEX tickwheel_job_recurring (key>? AND key<?)"]
    rows(store.path, "ANALYZE")
    facts = value(store.path, "SELECT stat FROM sqlite_stat1 WHERE idx = 'tickwheel_job_recurring'")
    assert facts.split()[0] == "3"
    assert [job.key for job in store.page(model.JobQuery(recurring=True)).jobs] == ["every 0", "every 1", "every 2"]


def anything(sql):
    """
    Return values for all parameters of *sql*.
    """
    if names := re.findall(r":(\w+)", sql):
        return dict.fromkeys(names, 1)
    numbers = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return [1] * (max(numbers) if numbers else sql.count("?"))


@pytest.mark.parametrize("count", [1, 24, 25, 126, 163])
def test_many_jobs_in_one_commit(store, count):
    """
    However many jobs one commit sets, with or without rare options, each job is stored as requested.

    Each of these jobs can be settled.
    """
    plain = [model.Job(f"plain {i}", 0, 7_000 + i, b"[1]", "log", "h", first_set_at=5) for i in range(count)]
    others = [replace(job, key=f"other {i}", expires_at=job.due_at + 1, trace="t") for i, job in enumerate(plain)]
    others += [replace(plain[0], key="retry", retry=model.RetryPolicy(2)), replace(plain[0], key="far", due_at=90_000)]
    answers = store.apply([model.Set(job) for job in (*plain, *others)])
    jobs = [answer.job for answer in answers]
    assert [replace(job, generation=0) for job in jobs] == [*plain, *others]
    assert [store.get(job.key) for job in jobs] == jobs
    store.apply([model.Begin(job, 1) for job in jobs])
    assert {answer.outcome for answer in store.apply([model.Settle(job, 1) for job in jobs])} == {"settled"}
    assert [store.get(job.key) for job in jobs] == [None] * len(jobs)
    assert store.count() == {"pending": 100, "running": 0, "dead": 0}


@pytest.mark.parametrize("missing", [0, 25, 49])
def test_jobs_with_one_due_time_are_claimed_together(store, missing):
    """
    Jobs with one due time are claimed and settled together.

    If one of these jobs was cancelled, only this job is left out.
    """
    answers = store.apply([model.Set(model.Job(f"run {i}", 0, 7_000)) for i in range(50)])
    jobs = [answer.job for answer in answers]
    store.apply([model.Cancel(jobs[missing].key), model.Set(model.Job("in between", 0, 7_000))])
    begun = [answer.outcome for answer in store.apply([model.Begin(job, 1) for job in jobs])]
    assert begun.count("begun") == 49
    assert begun[missing] == "not_found"
    left = [job for job in reversed(jobs) if job is not jobs[missing]]
    assert {answer.outcome for answer in store.apply([model.Settle(job, 1) for job in left])} == {"settled"}
    assert [job.key for job in store.due(0, 8_000, (6_999, 0), 100)] == ["in between"]
    assert store.count() == {"pending": 101, "running": 0, "dead": 0}


def test_adjacent_jobs_cost_less(store, made):
    """
    Claiming adjacent jobs takes fewer steps than claiming the same number of scattered jobs.
    """
    together = [answer.job for answer in store.apply([model.Set(model.Job(f"a {i}", 0, 7_000)) for i in range(50)])]
    apart = [answer.job for answer in store.apply([model.Set(model.Job(f"b {i}", 0, 8_000 + i)) for i in range(50)])]
    store.upcoming(0, EVER, 1)
    few = steps_of(made, lambda: store.apply([model.Begin(job, 1) for job in together]))
    assert few < steps_of(made, lambda: store.apply([model.Begin(job, 1) for job in apart]))


def test_a_job_set_alone_takes_six_statements(store, made):
    """
    A commit of one new job runs one query, and writes the job, its key and the row of stored counts.
    """
    set_one = partial(store.apply, [model.Set(model.Job("alone", 0, FAR))])
    verbs = [statement.split()[0] for statement in statements_of(made, set_one)]
    assert verbs == ["BEGIN", "SELECT", "INSERT", "INSERT", "UPDATE", "COMMIT"]
