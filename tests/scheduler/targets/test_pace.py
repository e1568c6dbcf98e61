"""
The pace at which a full receiver gets messages, with a rate limiter on a manual clock.
"""

from __future__ import annotations

import heapq
import itertools

import pytest

from tickwheel.targets._pace import Pace

AT_ONCE = 100
LATENCY_S = 0.02


class World:
    """
    Simulates a rate limiter with the jobs for one receiver, and records their outcomes.
    """

    def __init__(self, starts, *, limit, after, window=1.0, outage=(0.0, 0.0)):
        self.pace = Pace()
        self.limit, self.after, self.window, self.outage = limit, after, window, outage
        self.requests = [0] * len(starts)
        self.windows = {}
        self.done, self.refused, self.ended = 0, 0, 0.0
        self._order = itertools.count()
        self._events = []
        self._under_way, self._waiting = 0, []
        for number, start in enumerate(starts):
            self._later(start, self._ask, number)
        while self._events:
            now, _, call, number, *rest = heapq.heappop(self._events)
            call(now, number, *rest)

    def _later(self, at, call, number, *rest):
        heapq.heappush(self._events, (at, next(self._order), call, number, *rest))

    def _ask(self, now, number):
        if self._under_way >= AT_ONCE:
            self._waiting.append(number)
            return
        wait = self.pace.enter(str(number), now)
        if wait is not None:
            self._later(now + max(1.0, wait), self._ask, number)
            return
        self._under_way += 1
        self.requests[number] += 1
        window = int(now / self.window)
        self.windows[window] = self.windows.get(window, 0) + 1
        is_taken = self.windows[window] <= self.limit and not self.outage[0] <= now < self.outage[1]
        self._later(now + LATENCY_S, self._answered, number, is_taken)

    def _answered(self, now, number, is_taken):
        self._under_way -= 1
        if is_taken:
            self.pace.note_taken(now)
            self.done += 1
            self.ended = now
        else:
            self.refused += 1
            self.pace.note_refused(now, self.after)
            wait = self.pace.enter(str(number), now)
            self._later(now + max(1.0, wait or 0.0), self._ask, number)
        if self._waiting:
            self._ask(now, self._waiting.pop(0))


@pytest.mark.parametrize("phase", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("after", [1, 5, None])
@pytest.mark.parametrize("limit", [5, 20, 100])
def test_a_burst(limit, after, phase):
    """
    A burst of jobs is delivered at about the rate that the receiver allows. No message is sent more than three times.
    """
    world = World([phase] * 300, limit=limit, after=after)
    assert world.done == 300
    assert sum(world.requests) <= 2 * 300
    assert max(world.requests) <= 3
    assert world.ended <= 1.5 * 300 / limit + 5 * (after or 1)


def test_a_short_refusal():
    """
    If a receiver refuses messages for less than a second, it has accepted all messages some seconds later.
    """
    starts = [0.2 * number for number in range(5)] + [1.2 + 0.05 * number for number in range(100)]
    world = World(starts, limit=1000, after=None, outage=(0.9, 1.4))
    assert world.done == 105
    assert world.ended <= 15


def test_a_limit_for_a_minute():
    """
    If a receiver has a limit per minute and says how long it refuses, it gets its full limit in each minute.
    """
    world = World([0.1] * 300, limit=100, after=30, window=60)
    assert world.done == 300
    assert sum(world.requests) <= 2 * 300
    assert world.ended <= 180


@pytest.mark.parametrize("after", [1, None])
def test_a_receiver_that_accepts_nothing_for_a_while(after):
    """
    While the receiver accepts nothing, one job per second is tried.

    Afterwards all waiting jobs are sent at once.
    """
    world = World([number / 10 for number in range(300)], limit=10**9, after=after, outage=(5, 30))
    assert world.done == 300
    assert world.refused <= 30
    assert world.ended <= 33


def test_a_pace_is_forgotten():
    """
    The limit on a receiver's pace is dropped after a minute in which no message was refused or had to wait.
    """
    pace = Pace()
    pace.note_refused(100.0, 1)
    assert pace.enter("a", 100.0) == 1
    assert pace.enter("a", 101.0) is None
    assert pace.figures(101.0)["state"] == "full"
    assert pace.enter("b", 162.0) is None
    assert pace.figures(162.0) is None
    assert all(pace.enter(str(number), 162.0) is None for number in range(100))
