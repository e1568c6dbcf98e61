"""
Ends that come densely share commits, in one partition of a store and in several.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tickwheel.drivers import TimerWheel
from tickwheel.engine._gatherer import Gatherer, LastPost
from tickwheel.host.runtime import Runtime
from tickwheel.testing import ManualClock

PAUSE_S = 0.005
MANY = 64


@pytest.fixture
def clock():
    """
    Return a clock that the test moves.
    """
    return ManualClock()


@pytest.fixture
def gatherers(clock):
    """
    Return three gatherers of one store, and the batches that each has posted.
    """
    resources = SimpleNamespace(pacer=TimerWheel(clock=clock), runtime=Runtime(clock=clock, monotonic=clock.monotonic))
    posted, last = [[], [], []], LastPost()
    return [Gatherer(resources, posts.append, last) for posts in posted], posted


def end(number):
    """
    Return an end that is in no lane.
    """
    return SimpleNamespace(lane=None), number


def numbers(batches):
    """
    Return the numbers of the ends in each batch.
    """
    return [[number for _, number in batch] for batch in batches]


def test_a_lone_end_is_posted_at_once(gatherers, clock):
    """
    An end that comes after a pause waits for nothing, in whichever partition it is.
    """
    (first, second, _), posted = gatherers
    first.add(end(1))
    first.go_on()
    clock.advance(2 * PAUSE_S)
    second.add(end(2))
    second.go_on()
    clock.advance(2 * PAUSE_S)
    first.add(end(3))
    assert list(map(numbers, posted)) == [[[1], [3]], [[2]], []]


def test_the_first_end_of_each_partition_shares_a_commit_with_the_next(gatherers, clock):
    """
    A burst over all partitions has one commit of a single end, and not one in each partition.
    """
    each, posted = gatherers
    for number in range(30):
        each[number % 3].add(end(number))
    assert list(map(numbers, posted)) == [[[0]], [], []]
    clock.advance(2 * PAUSE_S)
    assert list(map(numbers, posted)) == [[[0]], [[*range(1, 30, 3)]], [[*range(2, 30, 3)]]]
    each[0].go_on()
    clock.advance(2 * PAUSE_S)
    assert numbers(posted[0]) == [[0], [*range(3, 30, 3)]]


def test_many_ends_wait_for_no_pause(gatherers):
    """
    As many ends as are worth a commit of their own are posted while the pause lasts.
    """
    (first, second, _), posted = gatherers
    first.add(end(0))
    for number in range(MANY):
        second.add(end(number))
    assert numbers(posted[1]) == [[*range(MANY)]]


def test_a_stop_posts_what_gathers(gatherers):
    """
    A flush ends the pause of a partition that has posted nothing yet.
    """
    (first, second, _), posted = gatherers
    first.add(end(1))
    second.add(end(2))
    second.flush()
    assert numbers(posted[1]) == [[2]]
