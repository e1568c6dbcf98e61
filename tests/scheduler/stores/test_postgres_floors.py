"""
Low watermarks on PostgreSQL. A watermark is a time before which no pending job of a shard is due.
"""

from __future__ import annotations

import pytest

from tickwheel.stores.postgres._floors import Floors
from tickwheel.testing import ManualClock

BOTTOM = -(2**63)
NOW = 1_000_000


@pytest.fixture
def clock():
    """
    Return a clock that is moved by hand.
    """
    return ManualClock()


@pytest.fixture
def floors(clock):
    """
    Return an empty set of watermarks that uses *clock*.
    """
    return Floors(clock.monotonic)


def of(floors, *shards):
    return floors.of(shards)[0]["floors"]


def learn(floors, *firsts):
    """
    Record a finished scan in *floors*.

    *firsts* has the first pending due time that the scan found in each shard.
    """
    floors.learn(floors.of()[1], firsts, NOW)


def test_a_scan_sets_the_watermark(floors):
    """
    A scan sets the watermark to the first pending due time.

    If nothing is pending, the watermark is some seconds before the end of the scan.
    """
    learn(floors, (0, 5), (1, None), (2, NOW - 1))
    assert of(floors, 0, 1, 2, 3) == [5, NOW - 10_000, NOW - 10_000, BOTTOM]


def test_a_new_job_lowers_the_watermarks(floors):
    """
    A new pending job lowers all watermarks above its due time.

    A scan that began earlier does not raise them again.
    """
    turn = floors.of()[1]
    learn(floors, (0, 500), (1, 5))
    floors.lower([70, 30])
    floors.lower([])
    assert of(floors, 0, 1) == [30, 5]
    floors.learn(turn, [(0, 500)], NOW)
    assert of(floors, 0) == [30]


def test_watermarks_are_forgotten(floors, clock):
    """
    The watermarks are forgotten after a minute, and after an error. The next scan then reads from the beginning.
    """
    learn(floors, (0, 5))
    clock.advance(50)
    learn(floors, (0, 7))
    assert of(floors, 0) == [7]
    clock.advance(10)
    assert of(floors, 0) == [BOTTOM]
    learn(floors, (0, 5))
    with pytest.raises(ValueError, match="lost"), floors.doubted():
        raise ValueError("lost")
    assert of(floors, 0) == [BOTTOM]
