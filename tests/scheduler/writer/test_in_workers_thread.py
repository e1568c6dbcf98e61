"""
If the writer is idle, a worker thread without a job writes the scheduler's batches itself.
"""

from __future__ import annotations

import threading

import pytest
from writes import a_set

from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime
from tickwheel.host.writer import Writer

PATIENCE_S = 20.0


class Answers:
    """
    Records the keys of answered batches, and the threads in which the answers arrived.
    """

    def __init__(self):
        self.keys = []
        self.threads = []
        self.errors = []
        self._grown = threading.Condition()

    def post(self, writer, *keys):
        """
        Post a batch for each key.
        """
        for key in keys:
            writer.post([a_set(key)], lambda result, key=key: self.take(key, result))

    def take(self, key, result):
        """
        Record an answer.
        """
        with self._grown:
            (self.errors if isinstance(result, Exception) else self.keys).append(key)
            self.threads.append(threading.current_thread())
            self._grown.notify_all()

    def wait(self, count):
        """
        Wait for *count* answers, and return the names of their threads.
        """
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.threads) >= count, PATIENCE_S)
            return [thread.name for thread in self.threads]


@pytest.fixture
def answers():
    """
    Return a recorder of answers.
    """
    return Answers()


def test_an_idle_writer_leaves_the_commit_to_the_worker(make, store, answers):
    """
    If the writer is idle, all batches that a worker posts in one call share one commit, in the worker's thread.

    The writer's thread sleeps in the meantime.
    """
    writer, me = make(), threading.current_thread()
    writer.post_and_write(lambda: answers.post(writer, "a", "b"))
    assert (answers.keys, answers.threads) == (["a", "b"], [me, me])
    assert store.calls.count("apply") == 1
    assert not writer.is_inside()
    answers.post(writer, "c")
    assert answers.wait(3)[2] == "tickwheel-writer"


def test_without_a_batch_there_is_no_commit(make, store):
    """
    If a worker posts no batch, nothing is committed.
    """
    make().post_and_write(lambda: None)
    assert "apply" not in store.calls


def test_a_busy_writer_writes_the_batches(make, store, answers):
    """
    A worker does not wait for the end of a running commit.

    The writer's thread writes the worker's batches in the next commit.
    """
    writer = make()
    with store.held() as entered:
        answers.post(writer, "first")
        assert entered()
        writer.post_and_write(lambda: answers.post(writer, "a", "b"))
        assert answers.keys == []
    assert answers.wait(3) == ["tickwheel-writer"] * 3
    assert store.calls.count("apply") == 2


def test_callers_share_the_commit(make, store, answers):
    """
    If writes of callers also wait, the writer's thread writes them together with the batches of the worker.
    """
    writer, promises = make(), []
    with store.held() as entered:
        answers.post(writer, "first")
        assert entered()
        promises.append(writer.submit(a_set("caller's")))
        writer.post_and_write(lambda: answers.post(writer, "a"))
    promises[0].result(PATIENCE_S)
    assert answers.wait(2) == ["tickwheel-writer"] * 2
    assert store.calls.count("apply") == 2


@pytest.mark.parametrize("is_late", [False, True])
def test_a_batch_of_another_thread_is_written(make, store, answers, is_late):
    """
    A batch that another thread posts while a worker posts its batches is written in the worker's commit.

    A batch that is posted during this commit is written in the next one.
    """
    writer = make()

    def post_elsewhere():
        thread = threading.Thread(target=answers.post, args=(writer, "elsewhere"))
        thread.start()
        thread.join(PATIENCE_S)

    def post():
        writer.post([a_set("here")], lambda result: (is_late and post_elsewhere(), answers.take("here", result)))
        if not is_late:
            post_elsewhere()

    writer.post_and_write(post)
    answers.wait(2)
    assert sorted(answers.keys) == ["elsewhere", "here"]
    assert store.calls.count("apply") == 1 + is_late


def test_transient_errors_are_left_to_the_writers_thread(make, store, answers):
    """
    The worker tries its batches once.

    After a transient error, the writer's thread retries them in order, and before later batches.
    """
    writer = make()
    store.fail("apply", 2)
    writer.post_and_write(lambda: answers.post(writer, "a", "b"))
    answers.post(writer, "c")
    assert answers.wait(3) == ["tickwheel-writer"] * 3
    assert answers.keys == ["a", "b", "c"]
    assert (writer.stats().retries, writer.stats().failures) == (2, 0)


def test_a_permanent_error_is_answered(make, store, answers):
    """
    If one batch of a worker cannot be written, it is answered with the error, and the other batches are written.
    """
    writer = make()
    store.fail("apply", 2, is_transient=False)  # both, and then the first one alone
    writer.post_and_write(lambda: answers.post(writer, "a", "b"))
    assert (answers.errors, answers.keys) == (["a"], ["b"])
    assert not writer.is_inside()


def test_an_unknown_outcome_is_reported(make, store, answers):
    """
    A commit with an unknown outcome is reported to the scheduler before the batch is answered, and is not repeated.
    """
    lost = []
    writer = make(on_unknown=lambda: lost.append(len(answers.threads)))
    store.fail("apply", after=True, is_unknown=True)
    writer.post_and_write(lambda: answers.post(writer, "a"))
    assert (lost, answers.errors) == ([0], ["a"])
    assert store.calls.count("apply") == 1


@pytest.mark.parametrize("place", ["post", "apply"])
def test_an_interrupted_worker(make, answers, monkeypatch, place):
    """
    If an exception from another thread interrupts a worker that posts a batch, the batch is not lost silently.

    It is written afterwards, or its outcome is reported as unknown.
    """
    lost = []
    writer = make(on_unknown=lambda: lost.append(threading.current_thread()))

    def post():
        answers.post(writer, "a")
        if place == "post":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if place == "apply":
            patch.setattr(writer, "_write", lambda *_args, **_options: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            writer.post_and_write(post)
    assert lost == ([] if place == "post" else [threading.current_thread()])
    if place == "post":
        assert answers.wait(1) == ["tickwheel-writer"]
    assert not writer.is_inside()
    answers.post(writer, "b")
    answers.wait(len(answers.threads) + ("b" not in answers.keys))
    assert "b" in answers.keys


def test_close_while_a_worker_writes(make, store, answers):
    """
    A close waits for the commit in a worker's thread.

    Later batches are refused.
    """
    writer = make()
    worker = threading.Thread(target=writer.post_and_write, args=(lambda: answers.post(writer, "a"),))
    with store.held() as entered:
        worker.start()
        assert entered()
        assert writer.close(timeout_s=0) is False
    assert writer.close(PATIENCE_S)
    worker.join(PATIENCE_S)
    assert answers.keys == ["a"]
    with pytest.raises(ClosedError):
        writer.post_and_write(lambda: answers.post(writer, "late"))


def test_two_writers(store, answers):
    """
    If a store permits two writers, a worker does not wait for the commits of callers.

    The answers to its batches arrive in its own thread.
    """
    store.abilities = type(store.abilities)(has_many_writers=True)
    entered, go_on = threading.Event(), threading.Event()
    writer = Writer(store, Runtime(), on_commit=lambda *_: (entered.set(), go_on.wait(PATIENCE_S)))
    try:
        promise = writer.submit(a_set("caller's"))
        assert entered.wait(PATIENCE_S)
        writer.post_and_write(lambda: answers.post(writer, "a"))
        assert answers.threads == [threading.current_thread()]
        go_on.set()
        promise.result(PATIENCE_S)
    finally:
        go_on.set()
        assert writer.close(PATIENCE_S)
