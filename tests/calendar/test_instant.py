"""
Instants of the wall clock, as callers name them.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar._instant import instant
from tickwheel.errors import InvalidValueError


class NoOffset(tzinfo):
    """
    A zone that does not say how far it is from UTC: what has it counts as naive.
    """

    def utcoffset(self, _):
        """
        Return None.
        """


def test_to_the_microsecond():
    """
    A datetime is exact, whatever its zone; seconds are not before what their float says.
    """
    when = datetime(2026, 10, 25, 2, 30, 0, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    assert instant(when) == (1_792_888_200_000_001_000, when.tzinfo)
    assert instant(when.replace(fold=1))[0] - instant(when)[0] == 3_600 * 10**9
    assert instant(1.5) == (1_500_000_000, UTC)
    assert instant(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == (-(10**9), UTC)
    assert instant(-math.inf)[0] < 0
    for microseconds in range(1_000):
        seconds = (datetime(2026, 6, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).timestamp()
        assert 0 <= instant(seconds)[0] - Fraction(seconds) * 10**9 < 1


def test_a_zone_without_an_offset():
    """
    A datetime whose zone has no offset is naive, and refused.
    """
    with pytest.raises(InvalidValueError, match=r"at is datetime.*: it has no zone: add tzinfo"):
        instant(datetime(2026, 6, 1, tzinfo=NoOffset()), "at")
