"""
A year to come, for tests that need dates in the future whenever they run: decades ahead, and within a century.
"""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, date, datetime
from itertools import count

YEAR = datetime.now(UTC).year + 20


def year_like(year: int) -> int:
    """
    Return the first year from YEAR on whose days fall on the same weekdays as those of *year*.
    """

    def calendar(of: int) -> tuple[int, bool]:
        return date(of, 1, 1).weekday(), isleap(of)

    return next(later for later in count(YEAR) if calendar(later) == calendar(year))
