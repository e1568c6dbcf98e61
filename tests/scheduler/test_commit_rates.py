"""
Frequent claims and acknowledgements share commits.

A partitioned store commits at about the same rate as other stores.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tickwheel.drivers import TimerWheel
from tickwheel.engine._claims import ARMING_WINDOW_MS, ClaimBatcher
from tickwheel.engine._completion import AckBatcher, Completer
from tickwheel.engine._staged_job import StagedJob
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Job
from tickwheel.scheduler import SchedulerOptions
from tickwheel.testing import ManualClock

PAUSE_MS = 5
SLOT_MS = 16
MANY = 64


class Timers:
    """
    A wheel that only records its timers, and which of them were cancelled.
    """

    def __init__(self):
        self.deadlines = []
        self.calls = []
        self.cancelled = []

    def call_at(self, when, callback, *arguments):
        """
        Record a timer, and return its handle.
        """
        self.deadlines.append(when)
        self.calls.append((callback, arguments))
        number = len(self.calls) - 1
        return SimpleNamespace(cancel=lambda: self.cancelled.append(number))


@pytest.fixture
def clock():
    """
    Return a clock that moves only when the test moves it.
    """
    return ManualClock()


@pytest.fixture
def make_resources(clock):
    """
    Return a function that makes a simple replacement for an engine's store, clock and timers.

    Its argument is the number of partitions of the store.
    """

    def make(partitions, **more):
        store = SimpleNamespace(abilities=SimpleNamespace(partitions=partitions))
        runtime = Runtime(clock=clock, monotonic=clock.monotonic)
        return SimpleNamespace(store=store, runtime=runtime, pacer=TimerWheel(clock=clock), **more)

    return make


def end(number):
    """
    Return acknowledgement *number*. Its job belongs to no lane.
    """
    return SimpleNamespace(lane=None, number=number)


@pytest.mark.parametrize("partitions", [1, 2, 3, 64])
def test_all_partitions_together_commit_as_often_as_one(make_resources, clock, partitions):
    """
    The pause between commits of acknowledgements grows with the number of partitions.

    So all partitions together commit as often as an unpartitioned store.
    """
    posted = []
    batcher = AckBatcher(make_resources(partitions), lambda batch: posted.append([each.number for each in batch]))
    batcher.add(end(0))  # posted at once
    batcher.add(end(1))
    assert posted == [[0]]
    batcher.go_on()
    batcher.add(end(2))
    clock.advance((PAUSE_MS * partitions - 1) / 1000)
    assert posted == [[0]]
    clock.advance(0.002)
    assert posted == [[0], [1, 2]]
    batcher.go_on()
    for number in range(MANY):
        batcher.add(end(number))
    assert posted[2:] == [[*range(MANY)]]  # MANY are enough for a commit without a pause


def test_acknowledgements_far_apart_wake_no_thread(make_resources, clock):
    """
    If an acknowledgement comes alone, no timer is set for the pause after its commit.

    If another one comes during the pause, it sets a timer for the rest of the pause.
    """
    posted, resources = [], make_resources(1)
    batcher = AckBatcher(resources, lambda batch: posted.append([each.number for each in batch]))
    for number in range(3):
        batcher.add(end(number))
        batcher.go_on()
        assert len(resources.pacer) == 0
        clock.advance((PAUSE_MS + 1) / 1000)
    assert posted == [[0], [1], [2]]
    batcher.add(end(3))
    batcher.go_on()
    clock.advance(0.002)
    batcher.add(end(4))
    batcher.add(end(5))
    assert len(resources.pacer) == 1
    clock.advance((PAUSE_MS - 3) / 1000)
    assert posted[4:] == []
    clock.advance(0.002)
    assert posted[4:] == [[4, 5]]


@pytest.mark.parametrize("is_urgent", [False, True])
def test_an_acknowledgement_for_which_a_lane_waits(make_resources, is_urgent):
    """
    If a lane waits for an acknowledgement, this acknowledgement is written at once, without the pause between commits.

    Other waiting acknowledgements are written in the same commit.
    """
    posted = []
    batcher = AckBatcher(make_resources(1), lambda batch: posted.append([each.number for each in batch]))
    batcher.add(end(0))
    batcher.go_on()
    batcher.add(end(1))
    batcher.add(SimpleNamespace(lane=SimpleNamespace(is_urgent=is_urgent), number=2))
    assert posted == ([[0], [1, 2]] if is_urgent else [[0]])
    batcher.flush()
    assert posted == [[0], [1, 2]]


@pytest.mark.parametrize(("partitions", "times"), [(1, 1), (2, 2), (3, 4), (4, 4), (64, 4)])
def test_partitions_have_wider_slots_of_claims(make_resources, partitions, times):
    """
    The more partitions a store has, the longer is the time slot whose claims share a commit. The maximum is 64 ms.
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
    callbacks = SimpleNamespace(on_lanes_moved=None)
    claims = ClaimBatcher(resources, SimpleNamespace(), SimpleNamespace(limits_of=None, lanes=None), callbacks)
    width = SLOT_MS * times
    first = (now_ms + 10_000) // width * width
    claims.add(SimpleNamespace(fire_at=first + number) for number in range(640))
    assert timers.deadlines == [first + start - ARMING_WINDOW_MS for start in range(0, 640, width)]


@pytest.fixture
def begun():
    return []


@pytest.fixture
def make_armer(make_resources, monkeypatch, begun):
    """
    Return a function that makes a claim batcher whose clock always shows *now_ms*.

    The batcher's lanes record in `begun` all entries that ask to start, and admit none.
    """

    def make(now_ms, timers=None):
        resources = make_resources(
            1,
            timers=timers or Timers(),
            clock=SimpleNamespace(now=lambda: float(now_ms), deadline=float),
            writer=None,
            hooks=SimpleNamespace(waits=SimpleNamespace(tell=lambda *_: None)),
            options=SchedulerOptions(),
        )
        callbacks = SimpleNamespace(on_lanes_moved=None, can_claim=lambda: False)
        claims = ClaimBatcher(resources, SimpleNamespace(), SimpleNamespace(limits_of=None, lanes=None), callbacks)

        def admit(entries):
            begun.append([entry.fire_at for entry in entries])
            return []

        monkeypatch.setattr(claims, "_lanes", SimpleNamespace(admit=admit, has_changed=False))
        return claims

    return make


@pytest.mark.parametrize("now_ms", [1_000_000_000_000, 1_000_000_000_015, 1_000_000_000_123, -40])
def test_acknowledgements_take_along_the_next_few_claims(make_armer, begun, now_ms):
    """
    Claims that are due soon join a commit of acknowledgements.

    Later claims, and claims that are already in a commit, do not join.
    """
    claims = make_armer(now_ms)
    claims.add(SimpleNamespace(fire_at=now_ms + ahead) for ahead in (80, 300, 199, 5_000))
    claims.begin_along()
    assert begun == [[now_ms + 80, now_ms + 199]]
    claims.begin_along()
    assert len(begun) == 1
    claims.add([SimpleNamespace(fire_at=now_ms + 81)])  # into a slot that the claims have left empty
    claims.begin_along()
    assert begun[1:] == [[now_ms + 81]]


def test_the_slot_of_claims_that_were_taken_along(make_armer, begun):
    """
    If claims join a commit of acknowledgements, their own timer is cancelled.

    If the timer still fires, it claims only jobs that came later.
    """
    claims = make_armer(now_ms := 1_000_000_000_000, timers := Timers())
    claims.add([SimpleNamespace(fire_at=now_ms + 80)])
    claims.begin_along()
    ((open_slot, arguments),) = timers.calls
    assert timers.cancelled == [0]
    open_slot(*arguments)
    assert begun == [[now_ms + 80]]
    claims.add([SimpleNamespace(fire_at=now_ms + 81)])
    open_slot(*arguments)
    assert begun[1:] == [[now_ms + 81]]


def test_acknowledgements_do_not_take_along_many_claims(make_armer, begun):
    """
    If more than a few claims are waiting, none of them joins a commit of acknowledgements.

    They get a commit of their own.
    """
    claims = make_armer(now_ms := 1_000_000_000_000)
    claims.add(SimpleNamespace(fire_at=now_ms + 80 + number) for number in range(5))
    claims.begin_along()
    assert begun == []


def test_claims_are_posted_just_before_the_acknowledgements(make_resources, clock):
    """
    Claims are posted just before the acknowledgements of a batch.

    They are not posted again when the batch is retried.
    """
    order = []
    resources = make_resources(
        1,
        clock=SimpleNamespace(now=float),
        writer=SimpleNamespace(post=lambda writes, _done: order.append(len(writes))),
        hooks=SimpleNamespace(failed=lambda *_: None),
        elapsed=None,
    )
    callbacks = SimpleNamespace(on_completing=lambda: order.append("begins"))
    completer = Completer(resources, None, None, None, callbacks)
    job = Job("key", 1, 0)
    entry = StagedJob(job, 1, 0)
    completer.write(entry)
    assert order == ["begins", 1]
    completer._settled([entry], StoreError("it is busy", "wait", is_transient=True), is_again=False, is_alone=False)
    clock.advance(1)
    assert order == ["begins", 1, 1]


class Ends(list):
    """
    A list that calls *on_empty* when a slice of the list is empty for the first time.

    This simulates another thread that appends to the list at that moment.
    """

    on_empty = None

    def __getitem__(self, place):
        found = super().__getitem__(place)
        if not found and self.on_empty is not None:
            on_empty, self.on_empty = self.on_empty, None
            on_empty()
        return found


class WatchedBatcher(AckBatcher):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._ended = self.ends = Ends()


def test_no_acknowledgement_is_left_behind(make_resources):
    """
    If an acknowledgement is added just after a thread found nothing more to post, this thread still posts it.
    """
    posted = []
    batcher = WatchedBatcher(make_resources(1), lambda batch: posted.append([each.number for each in batch]))
    batcher.add(end(0))
    batcher.ends.on_empty = lambda: batcher.add(end(1))
    batcher.go_on()
    assert posted == [[0], [1]]
    batcher.go_on()
    batcher.add(end(2))
    batcher.flush()
    assert posted == [[0], [1], [2]]
