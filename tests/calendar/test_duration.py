"""
Lengths of time as text.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.calendar.duration import from_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("30min", 1800),
        ("1.5s", 1.5),
        ("2h30m", 9000),
        ("250ms", 0.25),
        ("7d", 604_800),
        ("1w2d", 777_600),
        ("0s", 0),
        ("-90s", -90),
        ("PT30M", 1800),
        ("PT90S", 90),
        ("PT0.5S", 0.5),
        ("PT1,5H", 5400),
        ("P1D", 86_400),
        ("P2W", 1_209_600),
        ("P1DT2H3M4.5S", 93_784.5),
        ("-PT15M", -900),
    ],
)
def test_both_forms(text, seconds):
    """
    Numbers with units and ISO 8601 durations are read as seconds.
    """
    assert from_text(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "90", "s", "1.5", "30 m", "30M", "1h30", "--1s", "1e3s", "٣s", "9" * 101 + "s", "inf", "nan", "@hourly"),
        *("P", "PT", "P1DT", "P1Y", "P1M", "PT1D", "pt5s", "PT5S5S", "P1D2W"),
    ],
)
def test_texts_that_are_refused(text):
    """
    A text that is not a supported length of time is refused, and the error says what to write.
    """
    with pytest.raises(ValueError, match="write numbers with units"):
        from_text(text)


@settings(deadline=None)
@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_the_forms_agree(days, hours, minutes, seconds):
    """
    A number with units and the ISO 8601 form of the same duration give the same number of seconds.
    """
    expected = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert from_text(f"{days}d{hours}h{minutes}m{seconds}s") == expected
    assert from_text(f"P{days}DT{hours}H{minutes}M{seconds}S") == expected
