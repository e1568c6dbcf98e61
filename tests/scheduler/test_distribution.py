"""
The histogram of lateness.
"""

from __future__ import annotations

import random

import pytest

from tickwheel.host.distribution import Distribution, _edge_ms, _index


@pytest.mark.parametrize("us", [1, 2, 3, 7, 8, 9, 15, 16, 17, 1000, 1023, 1024, 999_999, 86_400_000_000])
def test_each_duration_is_in_its_step(us):
    """
    Each duration falls into a step of the histogram whose upper edge is above the duration and close to it.
    """
    edge = _edge_ms(_index(us / 1000)) * 1000
    assert us < edge <= us * 1.13 + 0.2


def test_values_beyond_the_first_and_last_step():
    """
    Zero and negative values count in the first bucket of the histogram, and too large values in the last bucket.
    """
    assert _index(0) == _index(-5) == _index(0.0004) == 0
    assert _index(1e15) == _index(1e12)


def test_before_the_first_firing():
    """
    Before the first firing, every figure of the lateness is zero.
    """
    assert Distribution().figures() == {
        "count": 0,
        "p50_ms": 0.0,
        "p99_ms": 0.0,
        "max_ms": 0.0,
        "sum_ms": 0.0,
        "histogram": [],
    }


@pytest.mark.parametrize("seed", range(5))
def test_quantiles(seed):
    """
    Quantiles differ from the exact quantiles by at most an eighth.

    The count and the maximum are exact.
    """
    dice = random.Random(seed)
    lateness = [dice.expovariate(1 / 5) for _ in range(1000)]
    distribution = Distribution()
    for start in range(0, 1000, 100):
        distribution.add(lateness[start : start + 100])
    distribution.add([])
    figures = distribution.figures()
    lateness.sort()
    assert figures["count"] == sum(count for _, count in figures["histogram"]) == 1000
    assert figures["max_ms"] == lateness[-1]
    assert lateness[498] <= figures["p50_ms"] <= lateness[501] * 1.13
    assert lateness[988] <= figures["p99_ms"] <= lateness[991] * 1.13
