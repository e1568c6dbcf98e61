"""
Handlers in worker processes.

If a process ends, only its own job loses an attempt.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import pickle
import re
import signal
import sys
import time
import types
from pathlib import Path

import pytest

from tickwheel.observe.events import JobDied, JobFailed, JobSnoozed, JobStopped, JobSucceeded
from tickwheel.scheduler import (
    Firing,
    InvalidJobError,
    Job,
    Outcome,
    Progress,
    RetryPolicy,
    SchedulerOptions,
    State,
)
from tickwheel.targets import _processes
from tickwheel.testing import ManualClock

ODD = ("fail_mutely", "answer_oddly", "start_another")
ONCE = RetryPolicy(attempts=1)
AGAIN = RetryPolicy(attempts=9, kind="list", waits_ms=(1,), jitter=0)


@pytest.fixture
def handlers(monkeypatch):
    """
    Return the module of handlers. The test makes it importable in other processes.
    """
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("process_handlers")


@pytest.fixture
def started(make, handlers, events):
    """
    Return a function that starts a scheduler with every handler.

    The function returns the scheduler and a record of its events.
    """

    def start(clock=None, **kwargs):
        scheduler = make("memory://", options=SchedulerOptions(processes=2), clock=clock)
        for name in ("note", "answer", "snooze_once", "fail", "end", "hang", "beat", "tell", *ODD):
            scheduler.handler(name, executor="process", **kwargs)(getattr(handlers, name))
        scheduler.start()
        return scheduler, events(scheduler)

    return start


def lines(path):
    """
    Return the process ids in the file *path*, once there is at least one.
    """
    give_up = time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < give_up
        time.sleep(0.01)  # no signal reports what another process has written
    return [int(line) for line in path.read_text().splitlines()]


def is_alive(pid):
    """
    Return True if a process with this id exists.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_handler_runs_in_another_process(started, tmp_path):
    """
    A handler runs in another process.

    The process is kept for the next call, and ends with the scheduler.
    """
    scheduler, told = started()
    path = tmp_path / "pids"
    for number in range(5):
        scheduler.set(str(number), delay=0, handler="note", payload=str(path))
        told.wait_for(
            lambda number=number: any(isinstance(e, JobSucceeded) and e.key == str(number) for e in told.items)
        )
    (pid,) = set(lines(path))
    assert pid != os.getpid()
    assert is_alive(pid)
    scheduler.stop()
    assert not is_alive(pid)


def test_results_of_a_worker_process(started, tmp_path):
    """
    A handler in a worker process may return DeadLetter, Retry or Snooze, with the usual effects.

    Any other result is a success.
    """
    scheduler, told = started()
    scheduler.set("cancel", delay=0, handler="answer", payload="cancel")
    scheduler.set("retry", delay=0, handler="answer", payload="retry", retry=AGAIN)
    scheduler.set("snooze", delay=0, handler="snooze_once", payload=str(tmp_path / "seen"))
    scheduler.set("nothing", delay=0, handler="answer", payload="nothing")
    assert told.of(JobDied, "cancel")[0].error == "enough"
    assert told.of(JobFailed, "retry")[0].error == "the handler asked for another attempt"
    assert told.of(JobSnoozed, "snooze")
    for key in ("retry", "snooze", "nothing"):
        assert told.of(JobSucceeded, key)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("segfault", "its process was ended by SIGSEGV"),
        ("kill", "its process was ended by SIGKILL"),
        ("exit", "its process ended with exit code 3"),
        ("sys.exit", "SystemExit: 4"),
        pytest.param("real-time", "its process was ended by signal 40", marks=pytest.mark.needs("signal.SIGRTMIN")),
        pytest.param("fork", "its process was ended by SIGSEGV", marks=pytest.mark.needs("os.fork")),
    ],
)
def test_a_process_that_ends(started, tmp_path, payload, error):
    """
    A crash, a kill or an exit of a process is a failed attempt of its job, with the cause.

    Other jobs are not affected.
    """
    scheduler, told = started()
    scheduler.set("bad", delay=0, handler="end", payload=payload, retry=ONCE)
    for number in range(3):
        scheduler.set(str(number), delay=0, handler="note", payload=str(tmp_path / "pids"))
    assert told.of(JobDied, "bad")[0].error == error
    for number in range(3):
        assert told.of(JobSucceeded, str(number))[0].attempt == 1
    assert not [each for each in told.items if isinstance(each, JobFailed)]


def test_an_exception_in_a_process(started):
    """
    An exception of a handler in a worker process is reported as if the handler had run in the scheduler's process.
    """
    scheduler, told = started()
    scheduler.set("bad", delay=0, handler="fail", payload="luck", retry=ONCE)
    assert told.of(JobDied)[0].error == "ValueError: no luck"


def test_a_timeout_kills(started, tmp_path):
    """
    A worker process that runs past its handler's timeout is killed.

    The attempt has failed, and the next job can run.
    """
    clock = ManualClock()
    scheduler, told = started(clock, timeout=5)
    path = tmp_path / "pids"
    scheduler.set("slow", delay=0, handler="hang", payload=str(path), retry=ONCE)
    (pid,) = lines(path)
    clock.advance(5)
    assert told.of(JobDied)[0].error == "TimeoutError: it did not end within 5 s, and its process was killed"
    assert not is_alive(pid)
    scheduler.set("next", delay=0, handler="note", payload=str(tmp_path / "others"))
    assert told.of(JobSucceeded, "next")


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        ("fail_mutely", "MuteError: its str() raised RuntimeError"),
        ("answer_oddly", "its answer cannot be sent: TypeError: cannot pickle '_thread.lock' object"),
    ],
)
def test_results_that_cannot_be_sent(started, tmp_path, handler, error):
    """
    If a handler's error has no text, the attempt fails. It also fails if a result cannot be sent to the scheduler.

    The worker process is kept.
    """
    scheduler, told = started()
    scheduler.set("odd", delay=0, handler=handler, retry=RetryPolicy(attempts=2, base_ms=0, jitter=0))
    assert told.of(JobFailed)[0].error == error
    assert (told.of(JobDied)[0].attempt, told.of(JobDied)[0].error) == (2, error)
    scheduler.set("next", delay=0, handler="note", payload=str(tmp_path / "pids"))
    assert told.of(JobSucceeded, "next")


def has_ended(pid):
    """
    Return True once no process has this id, or False after a minute.
    """
    stat = Path(f"/proc/{pid}/stat")
    give_up = time.monotonic() + 60
    while True:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":  # in a container no process reaps orphans
                return True
        except OSError:
            return True
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)  # no signal reports the end of an orphan


@pytest.mark.needs("os.killpg")
@pytest.mark.parametrize("how", ["hang", "crash"])
def test_programs_of_a_handler_end_with_its_process(started, tmp_path, how):
    """
    If a process is killed at a timeout or crashes, the programs that its handler started also end.
    """
    clock = ManualClock()
    scheduler, told = started(clock, timeout=5)
    path = tmp_path / "pids"
    scheduler.set("parent", delay=0, handler="start_another", payload=f"{path} {how}", retry=ONCE)
    (pid,) = lines(path)
    clock.advance(5 if how == "hang" else 0)
    ended = {"hang": "TimeoutError: it did not end within", "crash": "its process ended with exit code 3"}
    assert told.of(JobDied)[0].error.startswith(ended[how])
    assert has_ended(pid)


@pytest.mark.needs("os.killpg")
def test_programs_of_a_handler_end_with_a_stop(started, tmp_path):
    """
    If a stop reaches its time limit, it also ends the programs that handlers in worker processes have started.
    """
    scheduler, _ = started()
    path = tmp_path / "pids"
    scheduler.set("parent", delay=0, handler="start_another", payload=f"{path} hang")
    (pid,) = lines(path)
    scheduler.stop(timeout=0.5)
    assert has_ended(pid)


@pytest.mark.realtime
def test_heartbeats(started):
    """
    A long job that sends heartbeats is not killed.
    """
    scheduler, told = started(timeout=1.0)
    scheduler.set("long", delay=0, handler="beat", payload=8)
    assert told.of(JobSucceeded)[0].ran_ms > 1500


def test_progress(started, until):
    """
    The scheduler receives the progress that a worker process reports.

    A cancel of the job kills the worker process.
    """
    scheduler, _ = started()
    scheduler.set("k", delay=0, handler="tell", retry=AGAIN)
    until(lambda: scheduler.progress("k") == Progress(0.5, "page 2"))
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    until(lambda: scheduler.get("k") is None)
    until(lambda: scheduler.stats()["stopped"] == 1)
    stats = scheduler.stats()
    assert (stats["fired"], stats["retried"], stats["dead_total"], stats["succeeded"]) == (1, 0, 0, 0)


def test_the_next_run_is_due(started, tmp_path, until):
    """
    If a worker process still runs a job when the job's next run is due, overlap="cancel" kills the process.

    The next run then begins.
    """
    scheduler, told = started()
    scheduler.set("k", every=4.0, overlap="cancel", handler="hang", payload=str(tmp_path / "pids"))
    (died, *_) = told.of(JobDied)
    assert died.error == "its next run was due"
    first = lines(tmp_path / "pids")[0]
    until(lambda: not is_alive(first) and len(lines(tmp_path / "pids")) == 2)


def test_a_stop_does_not_wait_for_ever(started, tmp_path):
    """
    If a stop reaches its time limit, it kills the worker processes that run jobs.

    The interrupted jobs do not count as failed, because the next owner will run them again.
    """
    scheduler, told = started()
    path = tmp_path / "pids"
    scheduler.set("slow", delay=0, handler="hang", payload=str(path))
    (pid,) = lines(path)
    (left,) = scheduler.stop(timeout=0.5)
    assert left.job.key == "slow"
    assert not is_alive(pid)
    assert not [each for each in told.items if isinstance(each, JobFailed | JobDied)]


def test_a_process_that_died_while_idle(started, tmp_path, until):
    """
    A process that is killed between two calls is replaced, and no attempt is lost.
    """
    scheduler, told = started()
    path = tmp_path / "pids"
    scheduler.set("one", delay=0, handler="note", payload=str(path))
    told.of(JobSucceeded, "one")
    (pid,) = lines(path)
    os.kill(pid, 9)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    scheduler.set("two", delay=0, handler="note", payload=str(path))
    assert told.of(JobSucceeded, "two")[0].attempt == 1
    assert len(set(lines(path))) == 2


@pytest.fixture
def main_module(monkeypatch, tmp_path):
    """
    Return a function that replaces the main module with a module that has the given text.

    New processes import the main module.
    """

    def replace(text):
        path = tmp_path / "main.py"
        path.write_text(text)
        module = types.ModuleType("__main__")
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, "__main__", module)

    return replace


LARGE = "x" * 900_000
"""A size above the size of a pipe's buffer."""


@pytest.mark.parametrize("payload", ["x", LARGE], ids=["small", "large"])
def test_a_main_module_that_exits(make, handlers, events, main_module, payload):
    """
    If a process ends while it starts, the attempt fails, and the error says how the process ended.
    """
    main_module("import os; os._exit(7)")
    scheduler = make("memory://")
    scheduler.handler("take", executor="process", retry=ONCE)(handlers.take)
    told = events(scheduler)
    scheduler.start().set("k", delay=0, handler="take", payload=payload)
    assert told.of(JobDied)[0].error == "its process ended with exit code 7"


def test_a_main_module_that_hangs(make, handlers, events, main_module, monkeypatch):
    """
    A process that does not become ready is killed after a while, and the error names the remedy.
    """
    monkeypatch.setattr(_processes, "_UP_S", 0.5)
    main_module("import threading; threading.Event().wait()")
    scheduler = make("memory://")
    scheduler.handler("take", executor="process", retry=ONCE)(handlers.take)
    told = events(scheduler)
    scheduler.start().set("k", delay=0, handler="take", payload=LARGE)
    assert "did not begin within 0.5 s, and was killed: let its modules do nothing long" in told.of(JobDied)[0].error
    assert multiprocessing.active_children() == []


def test_a_cancel_while_it_starts(make, handlers, events, main_module, tmp_path):
    """
    If a worker process hangs while it starts, a cancel of its job kills the process.
    """
    started = tmp_path / "pids"
    main_module(
        f"import os, pathlib, threading; pathlib.Path({str(started)!r}).write_text(f'{{os.getpid()}}\\n')\n"
        "threading.Event().wait()"
    )
    scheduler = make("memory://")
    scheduler.handler("take", executor="process")(handlers.take)
    told = events(scheduler)
    scheduler.start().set("k", delay=0, handler="take", payload=LARGE)
    (pid,) = lines(started)
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    assert told.of(JobStopped)
    assert not is_alive(pid)


@pytest.mark.needs("signal.SIGSTOP")
def test_a_suspended_process_is_replaced(make, handlers, events, monkeypatch, tmp_path):
    """
    If an idle worker process was suspended by a signal, it is killed after a while, and another process replaces it.
    """
    scheduler = make("memory://")
    for name in ("note", "take"):
        scheduler.handler(name, executor="process", retry=ONCE)(getattr(handlers, name))
    told = events(scheduler)
    scheduler.start().set("one", delay=0, handler="note", payload=str(tmp_path / "pids"))
    assert told.of(JobSucceeded, "one")
    (pid,) = lines(tmp_path / "pids")
    process = scheduler._core.registry.handlers._processes._idle[0]
    assert process._pipe.poll(60)  # the process is ready
    os.kill(pid, signal.SIGSTOP)
    real, waits = _processes.Timer, iter([0.1])  # only the first timer is short; all others keep their minute
    monkeypatch.setattr(_processes, "Timer", lambda seconds, end: real(next(waits, seconds), end))
    scheduler.set("two", delay=0, handler="take", payload=LARGE)
    assert told.of(JobSucceeded, "two")[0].attempt == 1
    assert not is_alive(pid)


def test_a_handler_under_another_decorator(make, handlers, events, monkeypatch):
    """
    If another decorator hides a handler in its module, the handler's jobs become dead letters with a remedy.

    No process is started for them.
    """
    scheduler = make("memory://")
    scheduler.handler("take", executor="process")(handlers.take)
    monkeypatch.setattr(handlers, "take", functools.wraps(handlers.take)(lambda payload: payload))
    told = events(scheduler)
    scheduler.start().set("k", delay=0, handler="take", payload=1)
    assert re.search(r"not the same object.*above all other decorators", told.of(JobDied)[0].error)
    assert told.of(JobDied)[0].attempt == 1
    assert multiprocessing.active_children() == []


def test_a_call_that_cannot_be_pickled():
    """
    A call that cannot be pickled raises an error before a process is started.
    """
    pool = _processes.ProcessPool()
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pool.run(lambda payload: payload, 5.0, (1,), Firing(Job("k", 1, 0), 1, 0.0))
    assert not pool._all


async def coroutine(payload):
    pass


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda payload: payload, "is defined inside another"),
        (coroutine, "it is async"),
        (functools.partial(print, file=lambda: None), "it cannot be sent to a process"),
    ],
)
def test_a_function_that_cannot_be_imported(make, function, why):
    """
    A function that another process could not import is refused when it is registered.
    """
    scheduler = make("memory://")
    if why != "it is async":
        with pytest.raises(InvalidJobError, match=f"{why}.*executor='process' needs a plain function"):
            scheduler.handler("h", executor="process")(function)
    else:
        with pytest.raises(InvalidJobError, match="it is async: executor='process'"):
            scheduler.handler("h", executor="process")(function)
    assert not scheduler.has_handler("h")


def test_other_executors(make):
    """
    The error for an unknown executor names the two valid ones.
    """
    with pytest.raises(InvalidJobError, match="executor is 'fiber': pass 'thread' or 'process'"):
        make("memory://").handler("h", executor="fiber")(print)


def test_a_module_that_is_not_there(make, events, handlers, monkeypatch):
    """
    If the process cannot import the module of a function, the attempt fails, and the error says so.
    """
    monkeypatch.setattr(handlers.note, "__module__", "no_such_module")
    scheduler = make("memory://")
    scheduler.handler("note", executor="process")(handlers.note)
    told = events(scheduler)
    scheduler.start().set("one", delay=0, handler="note", payload="x", retry=ONCE)
    error = told.of(JobDied)[0].error
    assert "no_such_module" in error
    assert scheduler.get("one").state is State.DEAD


def test_a_hung_handler_beside_others(make, handlers, events, tmp_path):
    """
    If one handler's jobs hang in worker processes, one process stays free for the jobs of other handlers.
    """
    scheduler = make("memory://", options=SchedulerOptions(processes=2)).start()
    told = events(scheduler)
    scheduler.handler("hang", executor="process", timeout=None)(handlers.hang)
    scheduler.handler("note", executor="process")(handlers.note)
    for number in range(4):
        scheduler.set(f"k{number}", delay=0, handler="hang", payload=str(tmp_path / "hung"))
    lines(tmp_path / "hung")
    scheduler.set("other", delay=0, handler="note", payload=str(tmp_path / "noted"))
    told.of(JobSucceeded, "other")
    assert scheduler.stats()["waiting"] == 3


def test_the_default_timeout_of_a_process(make, handlers, events, tmp_path):
    """
    If a handler has no timeout of its own, its process is killed at the scheduler's default timeout.
    """
    scheduler = make("memory://", options=SchedulerOptions(timeout_s=0.5, retry=ONCE)).start()
    told = events(scheduler)
    scheduler.handler("hang", executor="process")(handlers.hang)
    scheduler.set("k", delay=0, handler="hang", payload=str(tmp_path / "pids"))
    assert "did not end within 0.5 s, and its process was killed" in told.of(JobDied)[0].error
    (pid,) = lines(tmp_path / "pids")
    assert not is_alive(pid)
