"""
The random choice of the firings that are traced, which are chosen in batches.
"""

from __future__ import annotations

import itertools
import math
import random

import pytest

from tickwheel.engine._spans import drawn

SIGMAS = 5


@pytest.mark.parametrize("share", [0.01, 0.3, 0.999])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_each_firing_is_chosen_with_the_same_probability(share, size):
    """
    Each firing of a batch is chosen independently of the others, with the probability *share*.
    """
    dice, batches = random.Random(size), 40_000 // size
    first = last = total = pairs = 0
    for _ in range(batches):
        places = list(drawn(size, share, dice.random))
        assert places == sorted(set(places))
        assert all(0 <= place < size for place in places)
        first += 0 in places
        last += size - 1 in places
        total += len(places)
        pairs += sum(after == place + 1 for place, after in itertools.pairwise(places))
    for count, tries, chance in (
        (first, batches, share),
        (last, batches, share),
        (total, batches * size, share),
        (pairs, batches * (size - 1), share * share),
    ):
        spread = math.sqrt(2 * tries * chance * (1 - chance))  # pairs overlap: less than twice the variance
        assert abs(count - tries * chance) <= SIGMAS * spread + 1


@pytest.mark.parametrize(("share", "expected"), [(0.0, []), (-1.0, []), (5e-324, []), (1.0, [0, 1]), (2.0, [0, 1])])
@pytest.mark.parametrize("chance", [0.5, 1 - 2**-53])
def test_probabilities_of_zero_and_one(share, expected, chance):
    """
    If the probability *share* is 0, negative or tiny, no firing is chosen for a trace. If it is 1 or more, all are.
    """
    assert list(drawn(2, share, lambda: chance)) == expected


def test_the_smallest_and_the_largest_random_number():
    """
    If the random numbers are all zero, every firing is chosen for a trace. If they are the largest, none is chosen.
    """
    assert list(drawn(3, 0.01, lambda: 0.0)) == [0, 1, 2]
    assert list(drawn(3_000, 0.01, lambda: 1 - 2**-53)) == []
