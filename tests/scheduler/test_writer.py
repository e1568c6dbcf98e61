"""
The writer: group commit, back-pressure, errors, and the end.
"""

from __future__ import annotations

import os
import threading

import pytest

from tickwheel.errors import ClosedError
from tickwheel.scheduler._model import Answer, Begin, Cancel, Job, Outcome, Set, Settle
from tickwheel.scheduler._writer import Writer
from tickwheel.scheduler.errors import StoreError
from tickwheel.scheduler.stores import MemoryStore
from tickwheel.scheduler.stores.sqlite import SqliteStore
from tickwheel.testing.faulty_store import FaultyStore

PATIENCE_S = 20.0


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    """
    Return a store that can be held and made to fail, over each of the real ones.
    """
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "jobs.db")
    store.open()
    yield FaultyStore(store)
    store.close()


@pytest.fixture
def make(store):
    """
    Return what makes writers; they are closed in the end.
    """
    made = []

    def make_one(**options):
        made.append(Writer(store, **options))
        return made[-1]

    yield make_one
    for writer in made:
        assert writer.close(PATIENCE_S)


def a_set(key, due_at=0):
    """
    Return a set of *key*.
    """
    return Set(Job(key, 0, due_at))


def a_bad_set():
    """
    Return a set that no store takes.
    """
    return Set(Job("bad", 0, 2**70))


def outcomes(answers):
    """
    Return the outcomes of *answers*.
    """
    return [answer.outcome for answer in answers]


def test_answers_when_it_is_written(make, store):
    """
    A write is answered once the store has it.
    """
    writer = make()
    assert writer.submit(a_set("key")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert store.get("key") is not None
    assert writer.submit(Cancel("nobody")).result(PATIENCE_S) == Answer(Outcome.NOT_FOUND)


def test_gathers_while_a_commit_runs(make, store):
    """
    What is submitted while a commit runs goes into the next one together, and every caller gets its own answer.
    """
    writer = make()
    with store.held() as entered:
        first = writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"key {i % 50}", i)) for i in range(100)]
    assert first.result(PATIENCE_S).outcome is Outcome.CREATED
    answers = [future.result(PATIENCE_S) for future in futures]
    assert outcomes(answers) == [Outcome.CREATED] * 50 + [Outcome.REPLACED] * 50
    assert [answer.job.due_at for answer in answers] == list(range(100))
    assert store.calls.count("apply") == 2
    stats = writer.stats()
    assert (stats.commits, stats.writes, stats.largest, stats.last_size) == (2, 101, 100, 100)
    assert stats.seconds >= stats.last_seconds > 0


def test_commits_are_bounded(make, store):
    """
    No commit holds more than the limit, except one that was posted as a whole.
    """
    writer = make(batch_max=10)
    answered = threading.Event()
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        bulk = writer.submit_many([a_set(f"{i}") for i in range(35)])
        writer.post([a_set(f"own {i}") for i in range(25)], lambda _: answered.set())
    assert len(bulk.result(PATIENCE_S)) == 35
    assert answered.wait(PATIENCE_S)
    stats = writer.stats()
    assert (stats.largest, stats.commits) == (25, 1 + 1 + 4)


def test_own_writes_go_first(make, store):
    """
    The scheduler's own writes pass a bulk that waits, and the bulk keeps a share of every commit.
    """
    writer = make(batch_max=8)
    order = []
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"caller {i}")) for i in range(6)]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: order.append(f"caller {number}"))
        for number in range(10):
            writer.post([a_set(f"own {number}")], lambda _, number=number: order.append(f"own {number}"))
    assert writer.close(PATIENCE_S)
    assert order[:8] == [*(f"own {i}" for i in range(6)), "caller 0", "caller 1"]
    assert order[8:] == [*(f"own {i}" for i in range(6, 10)), *(f"caller {i}" for i in range(2, 6))]


def test_bulk_is_answered_in_order(make):
    """
    A bulk larger than a commit is answered as one, in its order; an empty one at once.
    """
    writer = make(batch_max=7)
    answers = writer.submit_many([a_set(f"{i}", i) for i in range(100)]).result(PATIENCE_S)
    assert [answer.job.due_at for answer in answers] == list(range(100))
    assert writer.submit_many([]).result(0) == []


def test_full_queue(make, store):
    """
    When too many writes wait, the next caller waits for room, or is told that there is none; nothing of it is queued.
    """
    writer = make(waiting_max=3)
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"{i}")) for i in range(3)]
        assert writer.waiting == 3
        with pytest.raises(StoreError, match=r"3 writes wait for .*, and 3 may: write more slowly") as caught:
            writer.submit(a_set("refused"), timeout_s=0)
        assert caught.value.is_transient
        with pytest.raises(StoreError):
            writer.submit_many([a_set("refused"), a_set("refused too")], timeout_s=0.01)
        waited = threading.Thread(target=lambda: futures.append(writer.submit(a_set("waited"))))
        waited.start()
    waited.join(PATIENCE_S)
    assert outcomes(future.result(PATIENCE_S) for future in futures) == [Outcome.CREATED] * 4
    assert store.get("refused") is None
    assert store.get("waited") is not None


def test_bulk_above_the_limit(make):
    """
    A bulk of more than may wait is let in when nothing else waits.
    """
    writer = make(waiting_max=3)
    assert len(writer.submit_many([a_set(f"{i}") for i in range(50)]).result(PATIENCE_S)) == 50


def test_own_writes_need_no_room(make, store):
    """
    The scheduler's own writes are queued however many wait, also from inside a callback.
    """
    writer = make(waiting_max=1)
    answered = threading.Event()

    def again(_):
        writer.post([a_set("second")], lambda _: answered.set())

    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        writer.submit(a_set("caller"))
        writer.post([a_set("own")], again)
    assert answered.wait(PATIENCE_S)


def test_transient_error_is_tried_again(make, store):
    """
    A transient error costs a retry, and nobody hears of it.
    """
    writer = make()
    store.fail("apply", 3)
    assert writer.submit(a_set("key")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert writer.stats().retries == 3
    assert writer.stats().failures == 0


def test_transient_error_that_stays(make, store):
    """
    A transient error that outlasts the patience is answered to everybody in the batch, and the next batch is tried.
    """
    writer = make(retry_s=0.0)
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"{i}")) for i in range(5)]
        store.fail("apply", 2)
    errors = [future.exception(PATIENCE_S) for future in futures]
    assert {str(error) for error in errors} == {"apply failed: try again"}
    assert writer.submit(a_set("later")).result(PATIENCE_S).outcome is Outcome.CREATED


def test_unknown_end_is_not_tried_again(make, store):
    """
    Where a commit may have taken effect it is not repeated: the callers are told, after the scheduler.
    """
    told = []
    writer = make(on_unknown=lambda: told.append("scheduler"))
    store.fail("apply", after=True, is_unknown=True)
    future = writer.submit(a_set("key"))
    future.add_done_callback(lambda _: told.append("caller"))
    error = future.exception(PATIENCE_S)
    assert error.is_unknown
    assert store.calls.count("apply") == 1
    assert store.get("key") is not None
    writer.close(PATIENCE_S)
    assert told == ["scheduler", "caller"]


def test_bad_write_harms_nobody(make, store):
    """
    A write that cannot be stored fails alone; its neighbours in the batch are written and answered.
    """
    writer = make()
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_bad_set() if i in {3, 11} else a_set(f"{i}")) for i in range(16)]
    for number, future in enumerate(futures):
        if number in {3, 11}:
            assert isinstance(future.exception(PATIENCE_S), StoreError)
        else:
            assert future.result(PATIENCE_S).outcome is Outcome.CREATED
    assert store.count()["pending"] == 15
    assert writer.stats().failures == 2


def test_bad_bulk_fails_as_one(make):
    """
    A bulk with a bad write fails with its error.
    """
    writer = make()
    bulk = writer.submit_many([a_set("good"), a_bad_set()])
    assert isinstance(bulk.exception(PATIENCE_S), StoreError)


def test_observer_hears_first(make):
    """
    Whoever observes the commits hears of a write before its caller does, with all writes and answers of the commit.
    """
    heard = []
    writer = make(on_commit=lambda writes, answers: heard.append((list(writes), list(answers))))
    write = a_set("key")
    future = writer.submit(write)
    future.add_done_callback(lambda _: heard.append("caller"))
    answer = future.result(PATIENCE_S)
    writer.close(PATIENCE_S)
    assert heard == [([write], [answer]), "caller"]


def test_callbacks_that_raise(make, caplog):
    """
    A callback that raises is logged, and neither the thread nor the other callers notice.
    """

    def broken(*_):
        message = "my own fault"
        raise RuntimeError(message)

    writer = make(on_commit=broken)
    answers = []
    writer.post([a_set("one")], broken)
    writer.post([a_set("two")], answers.append)
    assert writer.submit(a_set("three")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert outcomes(answers[0]) == [Outcome.CREATED]
    assert {record.exc_info[1].args for record in caplog.records} == {("my own fault",)}


def test_close_writes_what_waits(make, store):
    """
    A close takes no more, writes and answers all that waits, and may be repeated.
    """
    writer = make()
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"{i}")) for i in range(10)]
        assert writer.close(timeout_s=0) is False
        for refused in (lambda: writer.submit(a_set("late")), lambda: writer.post([a_set("late")], print)):
            with pytest.raises(ClosedError, match="is closed"):
                refused()
    assert writer.close(PATIENCE_S)
    assert outcomes(future.result(0) for future in futures) == [Outcome.CREATED] * 10
    assert writer.close(PATIENCE_S)


def test_close_lets_those_go_who_wait_for_room(make, store):
    """
    A caller that waits for room when the writer closes is told that it is closed.
    """
    writer = make(waiting_max=1)
    caught = []
    waits = threading.Event()

    def wait():
        waits.set()
        try:
            writer.submit(a_set("waits"))
        except ClosedError as error:
            caught.append(error)

    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        writer.submit(a_set("fills"))
        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(PATIENCE_S)
        writer.close(timeout_s=0)
        thread.join(PATIENCE_S)
    assert len(caught) == 1


def test_close_from_a_callback(make):
    """
    A callback may close the writer, which then ends by itself.
    """
    writer = make()
    closed = []
    writer.post([a_set("key")], lambda _: closed.append(writer.close()))
    assert writer.close(PATIENCE_S)
    assert closed in ([False], [])


def test_queued_write_cannot_be_taken_back(make):
    """
    A future of a write cannot be cancelled: the write happens.
    """
    writer = make()
    future = writer.submit(a_set("key"))
    assert future.cancel() is False
    assert future.result(PATIENCE_S).outcome is Outcome.CREATED


def test_many_threads(make, store):
    """
    Eight threads at once: every answer goes to the one who asked, and commits are fewer than writes.
    """
    writer = make()
    (lease,) = store.acquire("owner")
    wrong = []

    def work(name):
        for turn in range(50):
            key = f"{name} {turn}"
            job = writer.submit(a_set(key, turn)).result(PATIENCE_S).job
            begun = writer.submit(Begin(job, lease.epoch))
            settled = writer.submit(Settle(job, lease.epoch))
            got = (job.key, begun.result(PATIENCE_S).outcome, settled.result(PATIENCE_S).outcome)
            if got != (key, Outcome.BEGUN, Outcome.SETTLED):
                wrong.append(got)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S * 3)
    assert wrong == []
    assert writer.stats().writes == 8 * 50 * 3
    assert writer.stats().commits < writer.stats().writes
    assert store.count() == {"pending": 0, "running": 0, "dead": 0}


def test_fork(make):
    """
    In a forked child, where the thread is not, a write is refused instead of waiting for ever.
    """
    writer = make()
    reader, end = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            writer.submit(a_set("key"))
        except StoreError as error:
            os.write(end, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"was opened before a fork: make a new scheduler in the child process" in os.read(reader, 1000)
    os.close(reader)
    os.close(end)
