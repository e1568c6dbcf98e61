"""
Sets of keys that the PostgreSQL store guesses to be new: right and wrong guesses.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError
from tickwheel.stores import open_store

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


def test_what_was_guessed_right_is_stored(make):
    """
    Every field of a new job is stored with the value in the answer.
    """
    store = make()
    answers = store.apply([model.Set(job) for job in JOBS])
    assert [answer.outcome for answer in answers] == [CREATED] * len(JOBS)
    assert [store.get(job.key) for job in JOBS] == [answer.job for answer in answers]
    generations = [answer.job.generation for answer in answers]
    assert generations == sorted(set(generations))
    assert store.count() == {"pending": len(JOBS), "running": 0, "dead": 0}


def test_wrong_guess(make):
    """
    An existing key among new ones, a key set twice, and a conditional set are answered as usual.
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
def test_what_cannot_be_stored(make, bad):
    """
    A value that does not fit any column is refused as permanent, and nothing of its batch is stored.
    """
    store = make()
    with pytest.raises(StoreError) as caught:
        store.apply([model.Set(PLAIN), model.Set(replace(PLAIN, **{"key": "bad", **bad}))])
    assert not caught.value.is_transient
    assert store.get("plain") is None
    assert set_all(store, ["plain"]) == [CREATED]


def test_two_who_set_the_same_new_keys(make):
    """
    Two nodes set the same keys at the same moment, in opposite orders: each key is created once, both are answered.
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
    An owner that begins jobs and a caller that sets them again at the same moment never deadlock.
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
        except StoreError as error:  # PostgreSQL ends one of those in a ring after a second
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
