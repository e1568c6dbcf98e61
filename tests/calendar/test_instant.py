"""
Instants that callers give as a datetime, a number or text.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar.instant import EPOCH, instant
from tickwheel.errors import InvalidValueError


class NoOffset(tzinfo):
    """
    A zone without an offset from UTC, whose datetimes count as naive.
    """

    def utcoffset(self, _):
        pass


def test_to_the_microsecond():
    """
    A datetime in any zone is converted exactly to the microsecond.
    """
    berlin = ZoneInfo("Europe/Berlin")
    when = datetime(2026, 10, 25, 2, 30, 0, 1, tzinfo=berlin)
    assert instant(when)[0] // 1_000 == 1_792_888_200_000_001
    assert instant(when)[1] is berlin
    assert instant(when.replace(fold=1))[0] // 1_000 == 1_792_891_800_000_001
    assert instant(1.5) == (1_500_000_000, UTC)
    assert instant(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == (-(10**9), UTC)
    assert instant(-math.inf)[0] < 0
    for microseconds in range(1_000):
        when = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        ns, ns_of_float = instant(when)[0], instant(when.timestamp())[0]
        assert min(ns, ns_of_float) / 1e9 >= when.timestamp()
        assert 0 <= ns - (when - EPOCH) // timedelta(microseconds=1) * 1_000 < 1_000
        assert 0 <= ns_of_float - Fraction(when.timestamp()) * 10**9 < 1_000


def test_a_zone_without_an_offset():
    """
    A datetime whose zone has no offset counts as naive, and is refused.
    """
    with pytest.raises(InvalidValueError, match=r"at is datetime.*: it has no zone: add tzinfo"):
        instant(datetime(2026, 6, 1, tzinfo=NoOffset()), "at")


def test_iso_text():
    """
    ISO text is read as the same instant as the datetime that it represents. Text without an offset is refused.
    """
    when = datetime(2030, 1, 1, 9, tzinfo=timezone(timedelta(hours=1)))
    assert instant("2030-01-01T09:00:00+01:00") == instant(when)
    assert instant("2030-01-01T08:00:00Z")[0] == instant(when)[0]
    for text in ("2030-01-01T09:00:00", "soon"):
        with pytest.raises(InvalidValueError, match=r"as in 2030-01-01T09:00:00\+01:00"):
            instant(text)
