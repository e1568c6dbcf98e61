"""
If the writer is idle, a caller that waits for its answer writes in its own thread.

The effects are the same as in the writer's thread.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextvars import ContextVar

import pytest
from writes import a_set, outcomes

from tickwheel import threads as tickwheel_threads
from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime
from tickwheel.host.writer import Writer
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Cancel, Outcome

PATIENCE_S = 20.0


@pytest.fixture
def threads():
    """
    Return a list to which each commit appends the thread that ran it.
    """
    return []


@pytest.fixture
def writer(make, threads):
    """
    Return a writer whose commits are recorded in `threads`.
    """
    return make(on_commit=lambda *_: threads.append(threading.current_thread()))


@pytest.fixture(autouse=True)
def handle():
    """
    Return a function that sets a signal handler for the rest of the test.

    The handlers that pytest's plugins installed are disabled during the test.
    """
    before = []

    def set_one(number, handler):
        before.append((number, signal.signal(number, handler)))

    set_one(signal.SIGINT, signal.default_int_handler)  # a background process of a shell ignores SIGINT
    for number in signal.valid_signals() - {signal.SIGINT}:
        if callable(signal.getsignal(number)):
            set_one(number, signal.SIG_DFL)
    yield set_one
    for number, handler in reversed(before):
        signal.signal(number, handler)


def write(writer, key="key"):
    """
    Set a job, wait for the answer, and return the outcome.
    """
    return writer.submit(a_set(key), waits=True).result(PATIENCE_S).outcome


def in_thread(call):
    """
    Run *call* in another thread, and return the thread and the result.
    """
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(PATIENCE_S)
    return thread, *found


def test_a_caller_that_waits_writes_itself(writer, store, threads):
    """
    While the writer is idle, a caller that has to wait writes in its own thread, and the writer's thread sleeps.
    """
    me = threading.current_thread()
    assert write(writer) is Outcome.CREATED
    assert writer.submit_many([Cancel("key"), a_set("a")], waits=True).result(0)[0].outcome is Outcome.CANCELLED
    thread, outcome = in_thread(lambda: write(writer, "b"))
    assert outcome is Outcome.CREATED
    assert threads == [me, me, thread]
    assert (writer.stats().commits, writer.stats().writes) == (3, 4)
    assert store.get("b") is not None


def test_a_caller_that_does_not_wait_leaves_it_to_the_thread(writer, threads):
    """
    A caller that does not wait, for example on an event loop, gets a promise at once.

    The writer's thread writes.
    """
    assert writer.submit(a_set("key")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert threads[0].name == "tickwheel-writer"


def test_more_than_one_commit_is_left_to_the_thread(make, threads):
    """
    If the writes of a caller need more than one commit, the writer's thread writes all of them.
    """
    writer = make(batch_max=2, on_commit=lambda *_: threads.append(threading.current_thread()))
    assert len(writer.submit_many([a_set(f"{i}") for i in range(3)], waits=True).result(PATIENCE_S)) == 3
    assert {thread.name for thread in threads} == {"tickwheel-writer"}


def test_busy_writers_gather(writer, store, threads, until):
    """
    Writes that arrive while a caller writes share the next commit, which the writer's thread makes.

    Afterwards callers write in their own threads again.
    """
    answers = []
    callers = [threading.Thread(target=lambda key=f"{i}": answers.append(write(writer, key))) for i in range(20)]
    with store.held() as entered:
        callers[0].start()
        assert entered()
        queued = [writer.submit(a_set(f"queued {i}")) for i in range(5)]
        for caller in callers[1:]:
            caller.start()
        until(lambda: writer.waiting == 24)
    for caller in callers:
        caller.join(PATIENCE_S)
    assert answers == [Outcome.CREATED] * 20
    assert outcomes(each.result(PATIENCE_S) for each in queued) == [Outcome.CREATED] * 5
    assert store.calls.count("apply") == 2
    assert write(writer, "after the crowd") is Outcome.CREATED
    assert write(writer, "alone") is Outcome.CREATED
    names = [thread.name for thread in threads]
    assert names[1:3] == ["tickwheel-writer"] * 2
    assert [threads[0], threads[3]] == [callers[0], threading.current_thread()]


def test_writes_keep_their_order(make, store):
    """
    The write of a waiting caller is committed between the writes that were queued before and after it.
    """
    written = []
    writer = make(batch_max=1, on_commit=lambda writes, *_: written.extend(each.job.key for each in writes))
    with store.held() as entered:
        thread = threading.Thread(target=write, args=(writer, "first"))
        thread.start()
        assert entered()
        promises = [writer.submit(a_set(f"{i}"), waits=i % 2 == 0) for i in range(6)]
    for promise in promises:
        promise.result(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert written == ["first", *map(str, range(6))]


def test_own_writes_come_after_a_callers_turn(writer, store):
    """
    If the scheduler posts a write during a caller's commit, the write is not lost: the writer's thread writes it next.
    """
    answered = threading.Event()
    with store.held() as entered:
        caller = threading.Thread(target=write, args=(writer,))
        caller.start()
        assert entered()
        writer.post([a_set("own")], lambda _: answered.set())
    assert answered.wait(PATIENCE_S)
    caller.join(PATIENCE_S)


def test_transient_errors_are_left_to_the_thread(writer, store, threads):
    """
    A caller's thread tries a write once.

    After a transient error the writer's thread retries the write, so the caller can be interrupted.
    """
    store.fail("apply", 3)
    assert write(writer) is Outcome.CREATED
    assert (writer.stats().retries, writer.stats().failures) == (3, 0)
    assert threads[0].name == "tickwheel-writer"


def test_transient_error_without_patience(make, store):
    """
    If retries are disabled, a caller that writes in its own thread gets the transient error.
    """
    writer = make(retry_s=-1.0)
    store.fail("apply")
    with pytest.raises(StoreError, match="apply failed: try again"):
        write(writer)
    assert write(writer) is Outcome.CREATED


@pytest.mark.parametrize("is_transient", [False, True])
def test_a_commit_with_an_unknown_outcome(make, store, is_transient):
    """
    A commit of a caller's thread with an unknown outcome is reported to the scheduler before the caller gets the error.

    The commit is not retried.
    """
    order = []
    writer = make(on_unknown=lambda: order.append("unknown"))
    store.fail("apply", after=True, is_transient=is_transient, is_unknown=True)
    promise = writer.submit(a_set("key"), waits=True)
    promise.add_done_callback(lambda _: order.append("answered"))
    with pytest.raises(StoreError):
        promise.result(0)
    assert order == ["unknown", "answered"]
    assert store.calls.count("apply") == 1
    assert write(writer) is Outcome.REPLACED


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_a_notice_that_fails(make, error):
    """
    If the callback that announces a commit fails, the writer asks the scheduler to scan the store again.
    """
    lost = []

    def fail(*_):
        raise error

    writer = make(on_commit=fail, on_unknown=lambda: lost.append(threading.current_thread()))
    assert write(writer) is Outcome.CREATED
    assert lost == [threading.current_thread()]


@pytest.mark.parametrize("place", ["apply", "on_commit"])
def test_ctrl_c(make, store, monkeypatch, place):
    """
    Ctrl-C during a commit is raised after the commit.

    The commit is durable and was announced, and the writer continues.
    """
    committed = []

    def interrupt():
        if not committed or place == "on_commit":
            signal.raise_signal(signal.SIGINT)

    def on_commit(writes, *_):
        committed.extend(each.job.key for each in writes)
        if place == "on_commit" and len(committed) == 1:
            interrupt()
        committed.append(threading.current_thread())

    apply = store.apply
    if place == "apply":
        monkeypatch.setattr(store, "apply", lambda writes: (interrupt(), apply(writes), interrupt())[1], raising=False)
    writer = make(on_commit=on_commit)
    with pytest.raises(KeyboardInterrupt):
        writer.submit(a_set("key"), waits=True)
    me = threading.current_thread()
    assert committed == ["key", me]
    assert store.get("key") is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not writer.is_inside()
    assert write(writer) is Outcome.REPLACED
    assert writer.submit(a_set("key")).result(PATIENCE_S).outcome is Outcome.REPLACED


def test_ctrl_c_before_a_retry(make, store, monkeypatch):
    """
    Ctrl-C before a retry reaches the caller at once.

    The write is still made.
    """
    apply, answered = store.apply, threading.Event()
    failing = [StoreError("apply failed", "try again", is_transient=True)]

    def interrupted(writes):
        if failing:
            signal.raise_signal(signal.SIGINT)
            raise failing.pop()
        return apply(writes)

    monkeypatch.setattr(store, "apply", interrupted, raising=False)
    writer = make(on_commit=lambda *_: answered.set())
    with pytest.raises(KeyboardInterrupt):
        write(writer)
    assert answered.wait(PATIENCE_S)
    assert store.get("key") is not None


@pytest.mark.needs("signal.SIGUSR1")
@pytest.mark.parametrize("number", [signal.SIGINT, getattr(signal, "SIGUSR1", None)])
def test_a_signals_handler_writes(writer, threads, handle, store, number):
    """
    If the program has a Python signal handler, a caller's write is left to the writer's thread.

    Otherwise the signal handler might interrupt a caller during its write, and write in the same thread.
    """
    nested, apply = [], store.apply
    handle(number, lambda *_: nested.append(write(writer, "nested")))

    def signalled(writes):
        if len(writes) == 1 and writes[0].job.key == "key":
            os.kill(os.getpid(), number)
        return apply(writes)

    store.apply = signalled
    assert write(writer) is Outcome.CREATED
    assert nested == [Outcome.CREATED]
    assert {thread.name for thread in threads} == {"tickwheel-writer"}
    thread, outcome = in_thread(lambda: write(writer, "in a thread"))  # signal handlers do not run in this thread
    assert outcome is Outcome.CREATED
    assert threads[-1] is thread


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_signals_without_a_handler(writer, threads, handle, handler):
    """
    If the program has no Python signal handler, a caller may write in its own thread.
    """
    handle(signal.SIGINT, handler)
    assert write(writer) is Outcome.CREATED
    assert threads == [threading.current_thread()]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_callback_may_not_wait(make, threads):
    """
    A callback that runs during a commit is inside the writer, and must not wait for a write.

    Writes that the callback posts are queued.
    """
    posted = threading.Event()

    def on_commit(*_):
        threads.append(writer.is_inside())
        if len(threads) == 1:
            writer.post([a_set("posted")], lambda _: (threads.append(writer.is_inside()), posted.set()))

    writer = make(on_commit=on_commit)
    assert write(writer) is Outcome.CREATED
    assert posted.wait(PATIENCE_S)
    assert threads == [True, True]
    assert not writer.is_inside()


def test_another_caller_is_not_inside(writer, store):
    """
    While one thread commits, other threads are not inside the writer.
    """
    with store.held() as entered:
        caller = threading.Thread(target=write, args=(writer,))
        caller.start()
        assert entered()
        assert not writer.is_inside()
    caller.join(PATIENCE_S)


def test_close_while_a_caller_writes(writer, store):
    """
    A close waits for a commit in a caller's thread.

    The caller gets its answer, and later calls are refused.
    """
    answers = []
    caller = threading.Thread(target=lambda: answers.append(write(writer)))
    with store.held() as entered:
        caller.start()
        assert entered()
        assert writer.close(timeout_s=0) is False
        with pytest.raises(ClosedError):
            write(writer, "late")
    assert writer.close(PATIENCE_S)
    caller.join(PATIENCE_S)
    assert answers == [Outcome.CREATED]
    with pytest.raises(ClosedError):
        write(writer, "later")
    assert store.calls.count("apply") == 1


def test_close_from_a_callback_of_a_callers_commit(make):
    """
    If a callback of a commit in a caller's thread closes the writer, the close does not wait for that commit.
    """
    closed = []
    writer = make(on_commit=lambda *_: closed.append(writer.close(PATIENCE_S)))
    assert write(writer) is Outcome.CREATED
    assert closed == [False]
    assert writer.close(PATIENCE_S)


def test_contexts_stay_apart(make):
    """
    The `on_commit` callback of a commit in a caller's thread runs in an empty context.

    So it does not see or change the caller's context variables.
    """
    variable, seen = ContextVar("variable", default="nothing"), []

    def on_commit(*_):
        seen.append(variable.get())
        variable.set("changed")

    writer = make(on_commit=on_commit)
    token = variable.set("mine")
    try:
        assert write(writer) is Outcome.CREATED
        assert (seen, variable.get()) == (["nothing"], "mine")
    finally:
        variable.reset(token)


def test_a_caller_with_little_stack_left(writer, threads):
    """
    A caller with little stack left leaves its write to the writer's thread.
    """

    def dig(frames):
        return write(writer) if frames == 0 else dig(frames - 1)

    assert dig(sys.getrecursionlimit() - 300) is Outcome.CREATED
    assert threads[0].name == "tickwheel-writer"


def test_greenlets(writer, threads, monkeypatch):
    """
    Under gevent the writer's thread writes, because a commit in a caller's greenlet would block all greenlets.
    """
    monkeypatch.setattr(tickwheel_threads, "is_patched", lambda: True)
    assert writer.submit(a_set("key"), waits=True).result(PATIENCE_S).outcome is Outcome.CREATED
    assert threads[0].name == "tickwheel-writer"


def test_a_store_with_two_writers(store, threads):
    """
    If a store permits two writers, a caller does not wait while the scheduler's own writes are committed.
    """
    store.abilities = type(store.abilities)(has_many_writers=True)
    writer = Writer(store, Runtime(), on_commit=lambda *_: threads.append(threading.current_thread()))
    entered, go_on = threading.Event(), threading.Event()
    try:
        writer.post([a_set("own")], lambda _: (entered.set(), go_on.wait(PATIENCE_S)))
        assert entered.wait(PATIENCE_S)
        assert write(writer) is Outcome.CREATED
        assert threads == [threading.current_thread()]
    finally:
        go_on.set()
        assert writer.close(PATIENCE_S)


@pytest.mark.needs("os.fork")
def test_fork(writer):
    """
    In a forked child a write raises an error, even if a caller was writing at the moment of the fork.
    """
    reader, end = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            writer.submit(a_set("key"), waits=True)
        except StoreError as error:
            os.write(end, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"was opened before a fork: make a new scheduler in the child process" in os.read(reader, 1000)
    os.close(reader)
    os.close(end)
