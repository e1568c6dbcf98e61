"""
The PostgreSQL store saves reads: it guesses that a key is new, or that a job has not changed since it was read.

The tests make right and wrong guesses.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from tickwheel.jobs import model, rules
from tickwheel.jobs.errors import StoreError
from tickwheel.stores import open_store
from tickwheel.stores.postgres._prepared import Prepared
from tickwheel.stores.postgres._queries import SQL

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

CREATED, REPLACED = model.Outcome.CREATED, model.Outcome.REPLACED
PLAIN = model.Job("plain", 0, 1)
JOBS = [
    PLAIN,
    replace(PLAIN, key="again"),
    replace(PLAIN, key="caf\u00e9 \U0001f552", payload=b"", due_at=-(2**63)),
    replace(PLAIN, key="retry", retry=model.RetryPolicy(3, "list", waits_ms=(1, 2)), expires_at=2**40),
    replace(PLAIN, key="target", target="webhook", handler="http://h\u00fc/", payload=b"x" * 100_000),
    replace(PLAIN, key="series", recurrence="a rule", trace="a trace", error="an error", first_set_at=5),
    replace(PLAIN, key="attempts", attempt=7, error="", due_at=2**63 - 1),
]


@pytest.fixture
def make(postgres, database):
    """
    Return a function that opens stores in one database.
    """
    opened = []

    def make_one():
        opened.append(open_store(postgres.url(database)))
        return opened[-1]

    yield make_one
    for store in opened:
        store.close()


def set_all(store, keys):
    """
    Set a job for each key, and return the outcomes.
    """
    return [answer.outcome for answer in store.apply([model.Set(model.Job(key, 0, 1)) for key in keys])]


def test_a_right_guess(make):
    """
    If the store guesses rightly that all keys are new, each stored job equals the job in the answer, in every field.
    """
    store = make()
    answers = store.apply([model.Set(job) for job in JOBS])
    assert [answer.outcome for answer in answers] == [CREATED] * len(JOBS)
    assert [store.get(job.key) for job in JOBS] == [answer.job for answer in answers]
    generations = [answer.job.generation for answer in answers]
    assert generations == sorted(set(generations))
    assert store.count() == {"pending": len(JOBS), "running": 0, "dead": 0}


@pytest.mark.parametrize(
    "values",
    [
        {"trace": [None, "a"]},
        {"trace": ["a", None]},
        {"trace": ["a", "a"], "retry": [model.RetryPolicy(2), model.RetryPolicy(2)]},
        {"retry": [model.RetryPolicy(2), model.Job("", 0, 0).retry], "expires_at": [9, None]},
        {"expires_at": [None, 9], "due_at": [5, 5], "payload": [b"", b""]},
        {"handler": ["a", "b"], "target": ["a", "a"], "payload": [b"", b"x"], "expires_at": [9, 9]},
    ],
)
def test_columns_of_one_value_and_of_several(make, values):
    """
    A column with the same value in all rows is sent once.

    A column with different values is sent with a value for each row.
    """
    store = make()
    jobs = [
        replace(PLAIN, key=key, **{name: column[index] for name, column in values.items()})
        for index, key in enumerate("ba")
    ]
    answers = store.apply([model.Set(job) for job in jobs])
    assert [answer.outcome for answer in answers] == [CREATED] * 2
    for job in jobs:
        stored = store.get(job.key)
        assert {name: getattr(stored, name) for name in values} == {name: getattr(job, name) for name in values}


def test_a_violation_of_another_index_is_an_error(make, postgres, database):
    """
    If a row violates a unique index that the user has added, the store raises the error and does not try again.
    """
    store = make()
    postgres.execute("CREATE UNIQUE INDEX theirs ON tickwheel_job (handler)", database)
    assert set_all(store, ["a"]) == [CREATED]
    with pytest.raises(StoreError, match="theirs"):
        set_all(store, ["b"])


def test_wrong_guess(make):
    """
    If keys exist, occur twice or are set conditionally, the store guesses wrongly that they are new.

    The answers are still right.
    """
    store = make()
    assert set_all(store, ["a"]) == [CREATED]
    assert set_all(store, ["b", "a", "c"]) == [CREATED, REPLACED, CREATED]
    assert set_all(store, ["d", "e"]) == [CREATED, CREATED]
    assert set_all(store, ["f", "f"]) == [CREATED, REPLACED]
    answers = store.apply([model.Set(model.Job(key, 0, 1), if_generation=0) for key in ("a", "g")])
    assert [answer.outcome for answer in answers] == [model.Outcome.WRONG_GENERATION, CREATED]
    assert store.count() == {"pending": 7, "running": 0, "dead": 0}


@pytest.mark.parametrize("bad", [{"key": "a\0"}, {"handler": "\0"}, {"due_at": 2**63}, {"attempt": 2**31}])
def test_values_that_do_not_fit_their_column(make, bad):
    """
    If a value does not fit its column, the whole batch is refused, and none of its writes is stored.

    The error is permanent.
    """
    store = make()
    with pytest.raises(StoreError) as caught:
        store.apply([model.Set(PLAIN), model.Set(replace(PLAIN, **{"key": "bad", **bad}))])
    assert not caught.value.is_transient
    assert store.get("plain") is None
    assert set_all(store, ["plain"]) == [CREATED]


def test_two_nodes_set_the_same_new_keys(make):
    """
    If two nodes set the same new keys at the same moment, in opposite orders, each key is created once.

    Both nodes get answers.
    """
    stores = [make(), make()]
    outcomes = [[], []]
    together = threading.Barrier(2)

    def work(number):
        for turn in range(20):
            keys = [f"{turn} {index}" for index in range(50)][:: 1 - 2 * number]
            together.wait()
            outcomes[number] += sorted(zip(keys, set_all(stores[number], keys), strict=True))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [{one[1], other[1]} for one, other in zip(*outcomes, strict=True)]
    assert pairs == [{CREATED, REPLACED}] * 1_000
    assert stores[0].count() == {"pending": 1_000, "running": 0, "dead": 0}


def test_begins_and_sets_of_the_same_jobs(make):
    """
    If an owner claims jobs while a caller sets the same jobs again, the two never deadlock.
    """
    owner, caller = make(), make()
    epochs = {lease.shard: lease.epoch for lease in owner.acquire("owner")}
    together = threading.Barrier(2)
    sets = [model.Set(model.Job(f"{index:03}", 0, 1_000 - index)) for index in range(300)]
    jobs = [answer.job for answer in caller.apply(sets)]
    raised = []

    def begin():
        try:
            for _ in range(20):
                begins = [model.Begin(job, epochs[owner.shard_of(job.key)]) for job in jobs]
                together.wait()
                owner.apply(begins)
                together.wait()
        except StoreError as error:  # PostgreSQL ends one of the deadlocked transactions after a second
            raised.append(error)
            together.abort()

    thread = threading.Thread(target=begin)
    thread.start()
    for _ in range(20):
        together.wait()
        jobs[:] = [answer.job for answer in caller.apply(sets)]
        together.wait()
    thread.join()
    assert not raised


PLAIN_JOBS = [
    *(job for job in JOBS if job.recurrence is None and not job.attempt),
    replace(PLAIN, key="trace", trace="a trace", handler="other", expires_at=7),
]


@pytest.mark.parametrize("counted_from", [None, 3, 10**15])
def test_plain_sets_are_answered_by_the_rules(make, counted_from):
    """
    A plain set request (without rare options) is one statement, but has the same answer as in every store.

    The stored job is also the same.
    """
    jobs = [replace(job, due_at=min(max(job.due_at, 0), 2**40)) for job in PLAIN_JOBS]
    store, writes = make(), [model.Set(job, counted_from=counted_from) for job in jobs]
    assert all(map(rules.is_plain_set, writes))
    before = store.now_ms()
    answers = store.apply(writes)
    (now,) = {answer.job.first_set_at for answer in answers}
    assert before <= now <= store.now_ms()
    numbers = iter(answer.job.generation for answer in answers)
    assert answers == [rules.decide(write, None, now, lambda: next(numbers))[0] for write in writes]
    assert [store.get(job.key) for job in jobs] == [answer.job for answer in answers]


def made_of(store, epoch):
    """
    Set jobs in every state in which a move or a cancel may find them.

    Return the keys of the jobs that a single statement can move or cancel, and the keys of the other jobs.
    """
    plain = [
        model.Job("plain", 0, 100),
        model.Job("all", 0, 100, b"payload", "pull", "mail", retry=model.RetryPolicy(3), expires_at=500, trace="trace"),
        model.Job("failed", 0, 100),
    ]
    other = [
        model.Job("series", 0, 100, recurrence="every 5 s"),
        model.Job("tried", 0, 100, expires_at=500, first_set_at=1),
        model.Job("running", 0, 100),
        model.Job("dead", 0, 100),
        model.Job("paused", 0, 100),
        model.Job("aside", 0, 100),
    ]
    jobs = {job.key: store.apply([model.Set(job)])[0].job for job in (*plain, *other)}
    for key in ("failed", "tried", "running", "dead"):
        assert store.apply([model.Begin(jobs[key], epoch)]) == [rules.BEGUN]
    store.apply([model.Settle(jobs["failed"], epoch, model.Settled.AGAIN, 0, error="error")])
    store.apply([model.Settle(jobs["tried"], epoch, model.Settled.AGAIN, 1, due_at=150, error="error")])
    store.apply([model.Settle(jobs["dead"], epoch, model.Settled.DEAD, 1, error="error")])
    store.apply([model.SetPause("paused", "me", "")])
    store.apply([model.SetAside(jobs["aside"], epoch, None)])
    return [job.key for job in plain], [job.key for job in other]


CHANGES = {
    "move": lambda key, _job, _now: model.Move(key, 700),
    "earlier": lambda key, _job, _now: model.Move(key, -7),
    "relative": lambda key, _job, now: model.Move(key, now + 700, counted_from=now - 5),
    "of its generation": lambda key, job, _now: model.Move(key, 700, job.generation),
    "of another generation": lambda key, job, _now: model.Move(key, 700, job.generation + 1),
    "by an actor": lambda key, _job, _now: model.Move(key, 700, actor=model.Actor("me")),
    "recorded": lambda key, _job, _now: model.Move(key, 700, actor=model.Actor("me", is_always=True)),
    "cancel": lambda key, _job, _now: model.Cancel(key),
    "cancel of its generation": lambda key, job, _now: model.Cancel(key, job.generation),
    "cancel of another generation": lambda key, job, _now: model.Cancel(key, job.generation + 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_single_moves_and_cancels_are_answered_by_the_rules(postgres, database, monkeypatch, change):
    """
    A move or cancel of one job has the same answer and the same effect as in every store.

    For a pending one-time job without a pause or an attempt, the change takes one statement.
    """
    url = f"{postgres.url(database)}&shards=1"
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        (lease,) = store.acquire("owner")
        plain, rest = made_of(store, lease.epoch)
        names = names_of(monkeypatch)
        for key in (*plain, *rest, "missing"):
            writer = other if key == "all" else store
            before, started = store.get(key), store.now_ms()
            write = change(key, before or model.Job(key, 1, 0), started)
            names.clear()
            (answer,) = writer.apply([write])
            asked = [*names]
            after, now = store.get(key), started
            if after is not None and getattr(write, "counted_from", None) and answer.outcome is model.Outcome.MOVED:
                now = after.due_at - write.due_at + write.counted_from
                assert started <= now <= store.now_ms()
            generation = 0 if after is None else after.generation
            assert (answer, after) == rules.decide(write, before, now, lambda g=generation: g)
            assert answer.outcome is not model.Outcome.MOVED or after.generation > before.generation
            is_series = before is not None and before.recurrence is not None
            has_record = write.actor is not None and (write.actor.is_always or is_series)
            if key in plain and answer.outcome in {model.Outcome.MOVED, model.Outcome.CANCELLED} and not has_record:
                assert asked in (["move_one"], ["cancel_one"])
            assert [record.outcome for record in store.history(key, None, 1) if record.attempt == 0] == (
                [answer.outcome.value] if has_record and answer.outcome is model.Outcome.MOVED else []
            )
        states = dict(postgres.execute("SELECT state % 3, count(*) FROM tickwheel_job GROUP BY 1", database))
        assert store.count() == {"pending": states.get(0, 0), "running": states.get(1, 0), "dead": states.get(2, 0)}


def test_a_move_keeps_the_order_of_generations(postgres, database):
    """
    If a move waits for another write to the same job, the other write may get a higher generation than the move.

    The move then gets a new generation, which is higher than both.
    """
    with closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        store.acquire("owner")
        (job,) = [answer.job for answer in store.apply([model.Set(model.Job("a", 0, 1))])]
        waits = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'tickwheel'"
        )
        with psycopg.connect(postgres.url(database)) as other, ThreadPoolExecutor(1) as pool:
            other.execute("UPDATE tickwheel_job SET generation = generation + 10 WHERE key = 'a'")
            moved = pool.submit(store.apply, [model.Move("a", 7)])
            while postgres.execute(waits, database) == [(0,)]:
                pass
            other.execute("SELECT setval('tickwheel_generation', 100)")
            other.commit()
            (answer,) = moved.result()
        assert answer.outcome is model.Outcome.MOVED
        assert answer.job.generation > job.generation + 10
        assert store.get("a") == answer.job


def names_of(monkeypatch):
    """
    Return a list of statement names.

    Each statement that forms a whole transaction appends its name to the list.
    """
    names, execute = [], Prepared.execute

    def noting(self, text, values):
        names.extend(name for name in SQL if SQL[name] == text)
        return execute(self, text, values)

    monkeypatch.setattr(Prepared, "execute", noting)
    return names


def fired(store, epoch, keys):
    """
    Set jobs under *keys*, claim them, and return them.
    """
    jobs = [answer.job for answer in store.apply([model.Set(model.Job(key, 0, 1)) for key in keys])]
    assert store.apply([model.Begin(job, epoch) for job in jobs]) == [rules.BEGUN] * len(jobs)
    return jobs


def unlisted(postgres, database):
    """
    Return the keys of the running jobs that no owner's list of claimed jobs contains.
    """
    found = "SELECT key FROM tickwheel_job WHERE state = 1 AND key NOT IN (SELECT unnest(keys) FROM tickwheel_begun)"
    return postgres.execute(found, database)


def test_ends_and_begins_are_one_statement(postgres, database, monkeypatch):
    """
    A batch of set requests is one statement. A batch of acknowledgements and claims is also one statement.
    """
    with closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        (lease,) = store.acquire("owner")
        names = names_of(monkeypatch)
        ran = fired(store, lease.epoch, ["a", "b", "c"])
        jobs = [answer.job for answer in store.apply([model.Set(model.Job(key, 0, 1)) for key in "xy"])]
        names.clear()
        ends = [model.Settle(job, lease.epoch) for job in ran[:2]]
        begins = [model.Begin(job, lease.epoch) for job in jobs]
        assert store.apply([begins[0], *ends, begins[1]]) == [rules.BEGUN, rules.GONE, rules.GONE, rules.BEGUN]
        assert names == ["turn"]
        assert store.count() == {"pending": 0, "running": 3, "dead": 0}
        assert unlisted(postgres, database) == []


@pytest.mark.parametrize("wrong", ["gone", "twice", "ended in the batch", "not owned", "pending"])
def test_a_wrong_guess_among_firings(postgres, database, wrong):
    """
    If one claim or acknowledgement of a batch does not fit the stored job, the statement for the batch changes nothing.

    The store then reads the jobs and decides about each write of the batch.
    """
    with closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        (lease,) = store.acquire("owner")
        ran = fired(store, lease.epoch, ["a", "b"])
        (new,) = [answer.job for answer in store.apply([model.Set(model.Job("new", 0, 1))])]
        writes = [model.Settle(ran[0], lease.epoch), model.Begin(new, lease.epoch)]
        if wrong == "gone":
            store.apply([model.Settle(ran[1], lease.epoch)])
            more, outcome = model.Settle(ran[1], lease.epoch), model.Outcome.NOT_FOUND
        elif wrong == "twice":
            more, outcome = model.Begin(new, lease.epoch), model.Outcome.TOO_LATE
        elif wrong == "ended in the batch":
            more, outcome = model.Settle(new, lease.epoch), model.Outcome.SETTLED
        elif wrong == "not owned":
            more, outcome = model.Settle(ran[1], lease.epoch + 1_000), model.Outcome.NOT_OWNER
        else:
            (pending,) = [answer.job for answer in store.apply([model.Set(model.Job("pending", 0, 1))])]
            more, outcome = model.Settle(pending, lease.epoch), model.Outcome.WRONG_GENERATION
        answers = store.apply([*writes, more])
        assert [answer.outcome for answer in answers] == [model.Outcome.SETTLED, model.Outcome.BEGUN, outcome]
        with psycopg.connect(postgres.url(database)) as connection:
            states = dict(connection.execute("SELECT state, count(*) FROM tickwheel_job GROUP BY state").fetchall())
        assert store.count() == {"pending": states.get(0, 0), "running": states.get(1, 0), "dead": 0}
        assert unlisted(postgres, database) == []


def test_a_firing_after_a_takeover_is_refused(postgres, database):
    """
    If another node has taken the shard over, a statement of the former owner changes nothing.
    """
    url = f"{postgres.url(database)}&shards=1"
    with closing(open_store(url)) as store, closing(open_store(url)) as heir:
        (lease,) = store.acquire("owner")
        (job,) = fired(store, lease.epoch, ["a"])
        postgres.execute("UPDATE tickwheel_shard SET lease_until = 0", database)
        (taken,) = heir.acquire("heir")
        assert taken.rescued == 1
        (answer,) = store.apply([model.Settle(job, lease.epoch)])
        assert answer.outcome is model.Outcome.NOT_OWNER
        assert heir.get("a").state is model.State.PENDING
        assert heir.apply([model.Begin(heir.get("a"), taken.epoch)]) == [rules.BEGUN]


def test_counts_of_sessions_are_gathered(postgres, database):
    """
    Each session counts jobs in rows of its own. A renewal of the owner's leases adds these counts to the shared rows.

    The totals stay the same.
    """
    with closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        (lease,) = store.acquire("owner")
        fired(store, lease.epoch, ["a", "b"])
        before = store.count()
        store.renew("owner")
        assert postgres.execute("SELECT count(*) FROM tickwheel_count WHERE slot > 31", database) == [(0,)]
        assert store.count() == before == {"pending": 0, "running": 2, "dead": 0}
        fired(store, lease.epoch, ["c"])
        assert store.count() == {"pending": 0, "running": 3, "dead": 0}
