"""
A future year for tests that need future dates.

Whenever the tests run, the year is decades ahead, but within a century.
"""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, date, datetime
from itertools import count

YEAR = datetime.now(UTC).year + 20


def year_like(year: int) -> int:
    """
    Return the first year, from YEAR on, whose dates have the same weekdays as in *year*.
    """

    def calendar(of: int) -> tuple[int, bool]:
        return date(of, 1, 1).weekday(), isleap(of)

    return next(later for later in count(YEAR) if calendar(later) == calendar(year))
