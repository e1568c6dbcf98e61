"""
Verbs that write in the caller's own thread.

The tests interrupt them by Ctrl-C, signal handlers, finalizers and a stop.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from contextlib import closing

import pytest

from tickwheel.errors import ReentrantError
from tickwheel.observe.events import JobSet, JobSucceeded
from tickwheel.scheduler import Outcome, Scheduler, SetRequest


@pytest.fixture(autouse=True)
def handle():
    """
    Return a function that sets a signal handler for the rest of the test.

    The handlers of pytest's plugins are disabled during the test.
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


@pytest.fixture(params=["sqlite", "memory"])
def scheduler(request, make, file_url, record):
    """
    Return a started scheduler with a handler.
    """
    scheduler = make(file_url if request.param == "sqlite" else "memory://")
    scheduler.handler("h")(record)
    return scheduler.start()


VERBS = {
    "set": lambda scheduler: scheduler.set("k", delay=3600, handler="h"),
    "set_many": lambda scheduler: scheduler.set_many([SetRequest("k", delay=3600, handler="h")]),
    "move": lambda scheduler: scheduler.move("k", delay=7200),
    "pause": lambda scheduler: scheduler.pause("k"),
    "resume": lambda scheduler: scheduler.resume("k"),
    "run_now": lambda scheduler: scheduler.run_now("k"),
    "cancel": lambda scheduler: scheduler.cancel("k"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_writes_in_its_callers_thread(scheduler, verb):
    """
    Each verb for one job writes in the thread of its caller, which would have to wait anyway.

    The hooks are called in that thread, too.
    """
    scheduler.set("k", delay=3600, handler="h")
    if verb == "resume":
        scheduler.pause("k")
    threads = []
    scheduler.subscribe(lambda _event: threads.append(threading.current_thread()))
    VERBS[verb](scheduler)
    assert threads[0] is threading.current_thread()


CALLS = {"set": 335, "move": 405, "cancel": 305}
"""Maximum number of calls, of Python and of C, that a verb makes on SQLite for one job that is due much later."""


@pytest.mark.parametrize("scheduler", ["sqlite"], indirect=True)
@pytest.mark.parametrize("verb", CALLS)
def test_each_verb_takes_few_calls(scheduler, verb):
    """
    If the writer is idle, a verb for one job makes few calls from start to answer, and needs no other thread.
    """
    calls = []
    for _ in range(2):  # the first turn makes the objects that are kept, such as prepared statements
        if verb != "set":
            scheduler.set("k", delay=3600, handler="h")
        calls.clear()
        before = sys.getprofile()
        sys.setprofile(lambda _frame, event, _argument: calls.append(event))
        try:
            VERBS[verb](scheduler)
        finally:
            sys.setprofile(before)
        if verb == "set":
            scheduler.cancel("k")
    assert sum(event in ("call", "c_call") for event in calls) <= CALLS[verb]


def test_ctrl_c_between_commit_and_answer(scheduler, record):
    """
    If Ctrl-C arrives between the commit and the answer, the job was set and fires, and the scheduler continues.
    """

    def interrupt(event):
        if isinstance(event, JobSet) and event.key == "first":
            signal.raise_signal(signal.SIGINT)

    scheduler.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        scheduler.set("first", delay=0, handler="h", payload=1)
    assert record.wait(1) == [1]
    scheduler.set("second", delay=0, handler="h", payload=2)
    assert record.wait(2) == [1, 2]


def test_a_finalizer_in_a_commit(scheduler, record):
    """
    A finalizer calls a verb.

    If the garbage collector runs the finalizer during a commit, the verb is refused. Otherwise the verb works.
    """
    outcomes = []

    class Last:
        def __init__(self):
            self.me = self

        def __del__(self):
            try:
                outcomes.append(scheduler.set("of a finalizer", delay=3600, handler="h").outcome)
            except ReentrantError as error:
                outcomes.append(type(error))

    def collect(event):
        if isinstance(event, JobSet) and event.key == "k":
            Last()
            gc.collect()

    Last()
    gc.collect()
    scheduler.subscribe(collect)
    assert scheduler.set("k", delay=0, handler="h", payload=1).outcome is Outcome.CREATED
    assert outcomes == [Outcome.CREATED, ReentrantError]
    assert record.wait(1) == [1]


@pytest.mark.needs("signal.SIGTERM")
def test_a_signals_handler_that_stops(make, file_url, handle):
    """
    If a SIGTERM handler stops the scheduler while the main thread sets a job, the job is set durably.

    The caller gets its answer.
    """
    scheduler = make(file_url).start()
    scheduler.handler("h")(print)
    stopped = threading.Event()
    handle(signal.SIGTERM, lambda *_: (scheduler.stop(), stopped.set()))
    scheduler.subscribe(lambda event: isinstance(event, JobSet) and signal.raise_signal(signal.SIGTERM))
    assert scheduler.set("k", delay=3600, handler="h").outcome is Outcome.CREATED
    assert stopped.wait(20)
    with closing(Scheduler(file_url)) as other:
        assert other.get("k") is not None


def test_a_stop_while_a_caller_writes(scheduler):
    """
    A stop waits for a commit in another thread.

    The caller in that thread gets its answer.
    """
    entered, go_on, outcomes = threading.Event(), threading.Event(), []
    scheduler.subscribe(lambda event: isinstance(event, JobSet) and (entered.set(), go_on.wait(20)))
    caller = threading.Thread(
        target=lambda: outcomes.append(scheduler.set("k", delay=3600, handler="h").outcome), daemon=True
    )
    caller.start()
    assert entered.wait(20)
    stop = threading.Thread(target=scheduler.stop)
    stop.start()
    go_on.set()
    stop.join(20)
    caller.join(20)
    assert outcomes == [Outcome.CREATED]
    assert not scheduler.is_started


def test_a_lone_job_is_acknowledged_in_its_workers_thread(scheduler, record, until):
    """
    A worker that ran the only due job writes the acknowledgement itself, without waking another thread.
    """
    threads = []
    scheduler.subscribe(
        lambda event: isinstance(event, JobSucceeded) and threads.append(threading.current_thread().name)
    )
    scheduler.set("k", delay=0.2, handler="h", payload=1)
    assert record.wait(1) == [1]
    until(lambda: threads)
    assert threads[0].startswith("tickwheel-worker-")
