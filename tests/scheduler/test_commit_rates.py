"""
Begins and ends that come densely share commits: a store in partitions gets about as many a second as any other.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tickwheel.drivers import TimerWheel
from tickwheel.engine._armer import ARMING_WINDOW_MS, Armer
from tickwheel.engine._gatherer import Gatherer
from tickwheel.host.runtime import Runtime
from tickwheel.scheduler import SchedulerOptions
from tickwheel.testing import ManualClock

PAUSE_MS = 5
SLOT_MS = 16
MANY = 64


class Timers:
    """
    A wheel that only remembers its timers.
    """

    def __init__(self):
        self.deadlines = []

    def call_at(self, when, *_):
        """
        Remember one.
        """
        self.deadlines.append(when)


@pytest.fixture
def clock():
    """
    Return a clock that the test moves.
    """
    return ManualClock()


@pytest.fixture
def make_resources(clock):
    """
    Return the resources of a store in a number of partitions.
    """

    def make(partitions, **more):
        store = SimpleNamespace(abilities=SimpleNamespace(partitions=partitions))
        runtime = Runtime(clock=clock, monotonic=clock.monotonic)
        return SimpleNamespace(store=store, runtime=runtime, pacer=TimerWheel(clock=clock), **more)

    return make


def end(number):
    """
    Return an end that is in no lane.
    """
    return SimpleNamespace(lane=None), number


@pytest.mark.parametrize("partitions", [1, 2, 3, 64])
def test_all_partitions_commit_ends_as_often_as_one(make_resources, clock, partitions):
    """
    A partition's pause from one commit of ends to the next is as many times that of a whole store as there are.
    """
    posted = []
    gatherer = Gatherer(make_resources(partitions), lambda batch: posted.append([number for _, number in batch]))
    gatherer.add(end(0))  # at once
    gatherer.add(end(1))
    assert posted == [[0]]
    gatherer.go_on()
    gatherer.add(end(2))
    clock.advance((PAUSE_MS * partitions - 1) / 1000)
    assert posted == [[0]]
    clock.advance(0.002)
    assert posted == [[0], [1, 2]]
    gatherer.go_on()
    for number in range(MANY):
        gatherer.add(end(number))
    assert posted[2:] == [[*range(MANY)]]  # as many as are worth a commit


@pytest.mark.parametrize(("partitions", "times"), [(1, 1), (2, 2), (3, 4), (4, 4), (64, 4)])
def test_partitions_have_wider_slots_of_begins(make_resources, partitions, times):
    """
    Jobs of several partitions share a slot of up to 64 ms, and none is begun later than its window.
    """
    timers = Timers()
    now_ms = 1_000_000_000_000
    resources = make_resources(
        partitions,
        timers=timers,
        clock=SimpleNamespace(now=lambda: now_ms, deadline=float),
        writer=None,
        hooks=SimpleNamespace(waits=None),
        options=SchedulerOptions(),
    )
    way = SimpleNamespace(moved=None)
    armer = Armer(resources, SimpleNamespace(), SimpleNamespace(limits_of=None, lanes=None), way)
    width = SLOT_MS * times
    first = (now_ms + 10_000) // width * width
    armer.add(SimpleNamespace(fire_at=first + number) for number in range(640))
    assert timers.deadlines == [first + start - ARMING_WINDOW_MS for start in range(0, 640, width)]
