"""
Group commit: which writes share a commit, in which order, and when callers are notified.
"""

from __future__ import annotations

import threading

from writes import a_set, outcomes

from tickwheel.jobs.model import Answer, Begin, Cancel, Outcome, Settle

PATIENCE_S = 20.0


def test_answers_when_it_is_written(make, store):
    """
    A write is answered once it is in the store.
    """
    writer = make()
    assert writer.submit(a_set("key")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert store.get("key") is not None
    assert writer.submit(Cancel("nobody")).result(PATIENCE_S) == Answer(Outcome.NOT_FOUND)


def test_gathers_while_a_commit_runs(make, store):
    """
    Writes that arrive during a commit share the next commit.

    Every caller gets its own answer.
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
    A commit has at most `batch_max` writes of callers, and at most `batch_max` writes of the scheduler.

    A batch of the scheduler is never split, even if it is larger.
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
    assert (stats.largest, stats.commits) == (25 + 10, 1 + 4)


def test_own_writes_go_first(make, store):
    """
    The scheduler's own writes overtake earlier writes of callers.

    Each commit also contains writes of callers, because their number has a separate limit.
    """
    writer = make(batch_max=8)
    order = []
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"caller {i}")) for i in range(12)]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: order.append(f"caller {number}"))
        for number in range(10):
            writer.post([a_set(f"own {number}")], lambda _, number=number: order.append(f"own {number}"))
    assert writer.close(PATIENCE_S)
    assert order[:16] == [*(f"own {i}" for i in range(8)), *(f"caller {i}" for i in range(8))]
    assert order[16:] == ["own 8", "own 9", *(f"caller {i}" for i in range(8, 12))]


def test_few_writes_overtake_a_burst(make, store):
    """
    A small batch of the scheduler, such as the writes of a firing, overtakes large batches that it posted earlier.
    """
    writer = make(batch_max=100)
    order = []
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        for name, count in (("many 1", 100), ("many 2", 100), ("few", 1)):
            writes = [a_set(f"{name} {number}") for number in range(count)]
            writer.post(writes, lambda _, name=name: order.append(name))
    assert writer.close(PATIENCE_S)
    assert order == ["few", "many 1", "many 2"]
    assert writer.stats().commits == 3


def test_bulk_is_answered_in_order(make):
    """
    If a caller's batch needs several commits, the caller gets one answer, with the results in the order of the batch.
    """
    writer = make(batch_max=7)
    answers = writer.submit_many([a_set(f"{i}", i) for i in range(100)]).result(PATIENCE_S)
    assert [answer.job.due_at for answer in answers] == list(range(100))
    assert writer.submit_many([]).result(0) == []


def test_observer_hears_first(make):
    """
    An observer of commits is notified before the callers.

    It gets all writes and answers of the commit.
    """
    heard = []
    writer = make(on_commit=lambda writes, answers, _: heard.append((list(writes), list(answers))))
    write = a_set("key")
    future = writer.submit(write)
    future.add_done_callback(lambda _: heard.append("caller"))
    answer = future.result(PATIENCE_S)
    writer.close(PATIENCE_S)
    assert heard == [([write], [answer]), "caller"]


def test_many_threads(make, store):
    """
    Eight threads write at once.

    Every answer goes to the right thread, and there are fewer commits than writes.
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
