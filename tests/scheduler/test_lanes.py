"""
One lane has far more jobs than fit into memory.

The other lanes still run.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import replace
from unittest.mock import ANY

import pytest

from tickwheel.engine import _lanes, _prefetch
from tickwheel.jobs.lane import lane_of
from tickwheel.observe.events import LaneCleared, LaneFilled
from tickwheel.scheduler import Scheduler, SchedulerOptions, SetRequest
from tickwheel.stores import make_store
from tickwheel.targets import Call

STAGED_MAX = 200
PATIENCE_S = 60.0
HERD = 5 * STAGED_MAX
LANES = 10


FEW = 40
"""Maximum number of staged jobs for a scheduler that runs its jobs one after another. It is smaller than STAGED_MAX."""


def options(staged_max=STAGED_MAX):
    """
    Return options that leave little room for staged jobs.
    """
    return SchedulerOptions(staged_max=staged_max, running_max=40, workers=4, coroutines=4)


def crowd(scheduler, kind, go_on, record):
    """
    Register a handler "crowd" that is slow or hangs, depending on *kind*.
    """

    def hangs(payload):
        record(payload)
        go_on.wait()

    async def hangs_on_loop(payload):
        record(payload)
        while not go_on.is_set():  # noqa: ASYNC110  another thread sets it
            await asyncio.sleep(0.01)

    match kind:
        case "hung":
            scheduler.handler("crowd", timeout=None)(hangs)
        case "hung on the loop":
            scheduler.handler("crowd", timeout=None)(hangs_on_loop)
        case "rate":
            scheduler.handler("crowd", rate=0.01)(record)
        case "one at a time":
            scheduler.handler("crowd", timeout=None, concurrency=1)(hangs)
        case "paused":
            scheduler.handler("crowd")(record)
            scheduler.pause_scope("handler:crowd")


def herd(kind="", name="crowd", count=HERD):
    """
    Return requests for more due jobs of one lane than fit into memory.
    """
    target = "pull" if kind == "pull" else "handler"
    return [SetRequest(f"{name}/{n}", delay=0, target=target, handler=name, payload=n) for n in range(count)]


def healthy(scheduler, record):
    """
    Register ten handlers that work.

    Return two jobs for each of them, one due now and one later.
    """
    for lane in range(LANES):
        scheduler.handler(f"h{lane}")(record)
    return [
        SetRequest(f"{lane}/{delay}", delay=delay, handler=f"h{lane}", payload=f"{lane}/{delay}")
        for lane in range(LANES)
        for delay in (0, 0.2)
    ]


REASONS = {
    "hung": "busy",
    "hung on the loop": "busy",
    "rate": "rate",
    "one at a time": "concurrency",
    "pull": "no_worker",
}
KINDS = [*REASONS, "paused", "unknown"]
"""Reasons why the jobs of a crowded lane wait. Jobs that are paused, or whose handler is unknown, leave memory."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_before", [True, False], ids=["before the start", "after it"])
def test_beside_a_crowd(url, make, record, go_on, until, kind, is_before):  # noqa: PLR0917  fixtures
    """
    If a lane has more due jobs than fit into memory, jobs of all other lanes run, whatever blocks the crowded lane.
    """
    scheduler = make(url, options=options())
    crowd(scheduler, kind, go_on, type(record)())
    jobs = healthy(scheduler, record)
    if is_before:
        scheduler.set_many(herd(kind))
        scheduler.set_many(jobs[: LANES // 2])  # set after the whole crowd
        scheduler.start()
    else:
        scheduler.start()
        scheduler.set_many(herd(kind))
        scheduler.set_many(jobs[: LANES // 2])
    scheduler.set_many(jobs[LANES // 2 :])
    assert sorted(record.wait(len(jobs))) == sorted(job.payload for job in jobs)
    assert scheduler.is_ready
    if kind in REASONS:
        name = "pull:crowd" if kind == "pull" else "handler:crowd"
        (lane,) = until(lambda: scheduler.stats()["full_lanes"])
        assert lane == {"lane": name, "staged": ANY, "reason": REASONS[kind]}


@pytest.mark.parametrize("kind", ["hung", "rate", "paused"])
def test_a_crowd_of_another_process(file_url, make, record, go_on, kind):
    """
    If another process sets more jobs of a lane than fit into memory, jobs of other lanes still run.
    """
    scheduler, client = make(file_url, options=options()), Scheduler(file_url)
    crowd(scheduler, kind, go_on, type(record)())
    jobs = healthy(scheduler, record)
    scheduler.start()
    client.set_many(herd(kind))
    client.set_many(jobs)
    assert sorted(record.wait(len(jobs))) == sorted(job.payload for job in jobs)
    client.close()


@pytest.mark.parametrize("is_other", [False, True], ids=["here", "in another process"])
def test_a_job_sooner_than_a_crowd(file_url, make, record, is_other):
    """
    If a lane has more future jobs than fit into memory, a job of this lane that is due now still runs.
    """
    scheduler = make(file_url, options=replace(options(), horizon_s=3_600.0))
    scheduler.handler("crowd")(record)
    scheduler.set_many([replace(request, delay=1_800.0) for request in herd()])
    scheduler.start()
    client = Scheduler(file_url) if is_other else scheduler
    client.set_many([SetRequest(f"now/{n}", delay=0, handler="crowd", payload=n) for n in range(LANES)])
    assert sorted(record.wait(LANES)) == list(range(LANES))
    client.close()


def test_some_crowds(url, make, record):
    """
    Several lanes that have more jobs than fit into memory still leave memory for other lanes.
    """
    scheduler = make(url, options=options())
    for lane in range(3):
        scheduler.handler(f"crowd{lane}", rate=0.01)(print)
        scheduler.set_many(herd(name=f"crowd{lane}"))
    jobs = healthy(scheduler, record)
    scheduler.start()
    scheduler.set_many(jobs)
    assert sorted(record.wait(len(jobs))) == sorted(job.payload for job in jobs)


MANY = 3 * STAGED_MAX


class Hanging:
    """
    A target whose firings hang until *go_on* is set, in threads or on the loop.
    """

    def __init__(self, go_on, *, is_async):
        self._go_on, self._is_async = go_on, is_async

    def check(self, handler):
        pass

    def resolve(self, _):
        return Call(self._on_loop if self._is_async else self._in_thread, is_async=self._is_async, timeout_s=None)

    def _in_thread(self, _):
        self._go_on.wait()

    async def _on_loop(self, _):
        while not self._go_on.is_set():  # noqa: ASYNC110  another thread sets it
            await asyncio.sleep(0.01)

    async def close(self):
        pass


def stuck(scheduler, target, go_on):
    """
    Return one due job for each of many lanes.

    The jobs of these lanes do not finish.
    """
    if target == "handler":
        for n in range(MANY):
            scheduler.handler(f"still{n}", timeout=None)(lambda _: go_on.wait())
    if target == "paused":
        scheduler.pause_scope("pull")
    name = {"paused": "pull", "unknown": "handler"}.get(target, target)
    form = "x://still{}" if target in {"threads", "loop"} else "still{}"
    return [SetRequest(f"{n}", delay=0, target=name, handler=form.format(n), payload=n) for n in range(MANY)]


@pytest.mark.parametrize("target", ["pull", "threads", "loop", "handler", "unknown", "paused"])
@pytest.mark.parametrize("is_before", [True, False], ids=["before the start", "after it"])
def test_beside_many_stuck_lanes(  # noqa: PLR0917  fixtures
    url, make, record, go_on, until, monkeypatch, target, is_before
):
    """
    If many lanes have one stuck job each, they leave memory for other targets and for lanes that make progress.
    """
    monkeypatch.setattr(_lanes, "_QUICK_MS", 1_000_000)  # so that slow attempts on a busy machine do not count as stuck
    targets = {"threads": Hanging(go_on, is_async=False), "loop": Hanging(go_on, is_async=True)}
    scheduler = make(url, options=options(), targets=targets)
    many, jobs = stuck(scheduler, target, go_on), healthy(scheduler, record)
    if is_before and target != "handler":  # nothing was known about these lanes
        scheduler.set_many(many)
        scheduler.set_many(jobs)
        scheduler.start()
    else:
        scheduler.start()
        scheduler.set_many(jobs[::2])
        until(lambda: scheduler.stats()["succeeded"] == LANES)
        scheduler.set_many(many)
        scheduler.set_many(jobs[1::2])
    assert sorted(record.wait(len(jobs))) == sorted(job.payload for job in jobs)


@pytest.mark.parametrize("is_before", [True, False], ids=["before the start", "after it"])
def test_a_worker_for_one_of_many_queues(url, make, record, until, monkeypatch, is_before):  # noqa: PLR0917  fixtures
    """
    A worker gets the jobs of its queue in order, although many other queues are full.

    To serve a worker, the scheduler reads the rows of the other queues only about once.
    """
    monkeypatch.setattr(_prefetch, "_SCANNED", 1)
    store, scans = make_store(url), []
    scheduler, others = make(store, options=options()), {f"{lane}/{n}": lane for lane in "ab" for n in range(9)}
    requests = [*stuck(scheduler, "pull", None), *healthy(scheduler, record)]
    requests += [SetRequest(key, delay=0, target="pull", handler=lane) for key, lane in others.items()]
    if not is_before:
        scheduler.start()
    scheduler.set_many(requests)
    scan = store.scan
    monkeypatch.setattr(store, "scan", lambda *args, **kwargs: scans.append(args) or scan(*args, **kwargs))
    scheduler.start()
    record.wait(2 * LANES)
    until(lambda: [lane["lane"] for lane in scheduler.stats()["full_lanes"]] == ["pull"])
    for lane in "ab":
        before, got = len(scans), []
        while len(got) < 9:
            got += scheduler.lease(lane, limit=9, wait=PATIENCE_S)
        assert [each.job.key for each in got] == [key for key in others if others[key] == lane]
        scheduler.set(f"{lane}/new", delay=0, target="pull", handler=lane)
        (new,) = scheduler.lease(lane, wait=PATIENCE_S)
        assert new.job.key == f"{lane}/new"
        assert len(scans) - before <= 3 * (MANY // 250 + 1)


def test_a_change_beside_a_long_scan(file_url, make, monkeypatch):
    """
    If a long scan reads a lane with very many jobs, a job that another process sets fires before the scan has ended.
    """
    monkeypatch.setattr(_prefetch, "_SCANNED", 1)
    store = make_store(file_url)
    scheduler, client = make(store, options=options()), Scheduler(file_url)
    scheduler.handler("crowd", rate=0.01)(print)
    ran, found = threading.Event(), []
    scheduler.handler("h")(lambda _: ran.set())
    client.set_many(herd(count=20 * STAGED_MAX))
    scan = store.scan

    def slow_scan(*args, inside, rows):
        if not inside:
            found.append(ran.is_set())
            if len(found) == 3:
                client.set("k", delay=0, handler="h")
            if len(found) > 3:
                ran.wait(1.0)  # long enough for all pages
        return scan(*args, inside=inside, rows=rows)

    monkeypatch.setattr(store, "scan", slow_scan)
    scheduler.start()
    assert ran.wait(PATIENCE_S)
    assert found.count(False) < 4_000 // 250
    client.close()


def test_events_of_a_crowd(make, record, events, go_on):
    """
    The hooks are called once when a lane has more jobs than fit into memory, with the reason.

    The hooks are called once more when the lane has room in memory again.
    """
    scheduler = make("memory://", options=options(FEW))
    told = events(scheduler)
    crowd(scheduler, "one at a time", go_on, record)
    scheduler.set_many(herd(count=5 * FEW))
    scheduler.start()
    (full,) = told.of(LaneFilled)
    assert (full.lane, full.reason) == ("handler:crowd", "concurrency")
    assert 0 < full.staged <= FEW // 2
    go_on.set()
    record.wait(5 * FEW)
    assert told.of(LaneCleared) == [LaneCleared("handler:crowd")]
    assert len(told.of(LaneFilled)) == 1


def test_all_jobs_of_a_crowd_run(url, make, record, go_on):
    """
    If a lane has more jobs than fit into memory, all of them run in order, even those that are set later.
    """
    scheduler = make(url, options=options(FEW))
    crowd(scheduler, "one at a time", go_on, record)
    scheduler.set_many(herd(count=5 * FEW))
    scheduler.start()
    record.wait(1)
    scheduler.set_many(
        [SetRequest(f"later/{n}", delay=0, handler="crowd", payload=5 * FEW + n) for n in range(5 * FEW)]
    )
    go_on.set()
    assert record.wait(10 * FEW) == list(range(10 * FEW))


def test_verbs_reach_a_crowd(url, make, record, go_on):
    """
    If a lane has more jobs than fit into memory, each of them can still be cancelled, moved, set again and run now.
    """
    scheduler = make(url, options=options(FEW))
    crowd(scheduler, "one at a time", go_on, record)
    scheduler.set_many(herd(count=5 * FEW))
    scheduler.start()
    record.wait(1)
    gone = {f"crowd/{n}" for n in range(1, 5 * FEW, 7)}
    for key in gone:
        scheduler.cancel(key)
    scheduler.set(f"crowd/{5 * FEW - 1}", delay=0, handler="crowd", payload="again")
    scheduler.move(f"crowd/{5 * FEW - 2}", delay=3600)
    scheduler.run_now(f"crowd/{5 * FEW - 3}")
    go_on.set()
    expected = {n for n in range(5 * FEW - 2) if f"crowd/{n}" not in gone} | {"again"}
    assert set(record.wait(len(expected))) == expected
    assert scheduler.get(f"crowd/{5 * FEW - 2}") is not None


def test_a_paused_crowd_runs_after_the_resume(url, make, record):
    """
    If a paused lane has more jobs than fit into memory, all of them run after the resume.
    """
    scheduler = make(url, options=options())
    crowd(scheduler, "paused", None, record)
    scheduler.set_many(herd())
    scheduler.start()
    scheduler.resume_scope("handler:crowd")
    assert sorted(record.wait(HERD)) == list(range(HERD))


def test_the_next_owner_of_a_crowd(file_url, make, record, go_on):
    """
    If a lane has more jobs than fit into memory, the next owner of the store still fires the jobs of all lanes.
    """
    first = make(file_url, options=options(FEW))
    crowd(first, "hung", go_on, record)
    first.set_many(herd(count=5 * FEW))
    first.start()
    record.wait(1)
    go_on.set()
    first.stop()
    again, others = type(record)(), type(record)()
    held = threading.Event()
    second = make(file_url, options=options(FEW))
    crowd(second, "one at a time", held, again)
    jobs = healthy(second, others)
    second.set_many(jobs)
    second.start()
    assert sorted(others.wait(len(jobs))) == sorted(job.payload for job in jobs)
    held.set()
    left = set(range(5 * FEW)) - set(record.items)
    assert left <= set(again.wait(len(left)))


def test_many_queues_without_a_worker(make, until):
    """
    If there are twice as many queues without workers, the code that manages lanes makes about twice as many calls.
    """

    def calls_for(count):
        called = Counter()
        threading.setprofile(lambda frame, event, _: called.update([event]) if is_of_lanes(frame, event) else None)
        try:
            scheduler = make("memory://").start()
        finally:
            threading.setprofile(None)
        for number in range(2):
            requests = [SetRequest(f"{n}/{number}", delay=0, target="pull", handler=f"q{n}") for n in range(count)]
            scheduler.set_many(requests)
        until(lambda: sum(lane["waiting"] for lane in scheduler.stats()["lanes"]) == 2 * count)
        scheduler.stop()
        return called.total()

    def is_of_lanes(frame, event):
        return event == "call" and frame.f_code.co_filename == _lanes.__file__

    assert calls_for(400) < 3 * calls_for(200)


def test_the_lane_of_a_job():
    """
    The lane of a job is its handler, its queue or its receiver.

    The path in a receiver's address does not matter.
    """
    assert lane_of("handler", "mail") == "handler:mail"
    assert lane_of("handler", "https://a/b") == "handler:https://a/b"
    assert lane_of("pull", "a/b") == "pull:a/b"
    assert lane_of("webhook", "https://a.example:8443/b?c=d#e") == "webhook:https://a.example:8443"
    assert lane_of("webhook", "https://a?b=c/d") == "webhook:https://a"
    assert lane_of("nats", "jobs.mail") == lane_of("nats", "jobs.bill") == "nats:"
