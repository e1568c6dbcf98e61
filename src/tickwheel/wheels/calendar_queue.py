"""
A ring that adapts its slots to the pending entries: the calendar queue of discrete-event simulators.

A desk calendar has a page for each day of one year. Entries for the same date of any year are on the same page, in
order; today's entries are at the front of today's page. With a `width` of 4 and 8 days:

    day        0     1     2     3     4     5     6     7         day  = deadline div width mod days
    page      33     5     9          17    20    25    29         year = days * width
              34          41          19          57               9 and 41 are a year apart
                     ^ today: 5 is due first; an entry at the front is due today only if it is for this year

| operation         | cost            | why                                                                     |
|-------------------|-----------------|-------------------------------------------------------------------------|
| `insert`          | O(1) on average | a page holds a few entries, which are kept in order                     |
| `cancel`, move    | O(1) on average | binary search in one page                                               |
| `advance`         | O(1) on average | per entry: the next occupied page is a few days ahead                   |
| `next_expiration` | O(1) on average | the earliest entry is remembered; once it has left, a search from today |
|                   |                 | on, or through all pages if no entry is for this year                   |
| resizing          | O(n)            | when the number of entries has doubled or halved; on average, O(1) per  |
|                   |                 | entry                                                                   |

"On average" is the weak point: a width that suits most entries may crowd all other entries into one page, and then an
insert into the page's sorted list is slow. Wheels with ticks do not have this weakness, so timers use such wheels.
Simulators use calendar queues, because their next event is always near the last one.

The source: R. Brown, "Calendar Queues: A Fast O(1) Priority Queue Implementation for the Simulation Event Set Problem",
Communications of the ACM 31 (10), 1988. Brown takes the width from a sample of the separations. Here the width is the
mean separation of the middle half of the entries, so that outliers do not matter.

    >>> wheel = CalendarWheel()
    >>> tea, eggs = wheel.insert(240, "tea"), wheel.insert(360, "eggs")
    >>> wheel.reschedule(eggs, 180)
    True
    >>> wheel.next_expiration()
    180
    >>> [entry.payload for entry in wheel.advance(240)]
    ['eggs', 'tea']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tickwheel.wheels._base import BaseWheel
from tickwheel.wheels._due import DueRun
from tickwheel.wheels.card import Card, Geometry, Load
from tickwheel.wheels.contract import NEVER, Expired, checked_deadline, checked_limit
from tickwheel.wheels.entry import by_order
from tickwheel.wheels.view import RingView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tickwheel.wheels.entry import Entry

__all__ = ["CalendarWheel"]

DAYS_MIN: Final = 8
"""Minimum number of days in the ring, even if it is empty."""
A_PAGE: Final = 3  # a smaller width leaves pages empty, a larger one lengthens the sorted lists
"""
Width of a page, as a multiple of the mean distance between deadlines. Brown found 3 best.
"""


class CalendarWheel(BaseWheel):
    """
    A calendar queue with the protocol of a wheel: exact deadlines, any span, and no geometry to choose.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts["refiled"] = 0
        self._parked = DueRun()
        self._floor = 0  # only overdue entries are before it; they are on its page
        self._known_first: Entry | None = None
        self._is_first_known = True
        self._days: list[DueRun] = []
        self._open(DAYS_MIN, 1)

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        checked_deadline(now, "now")
        limit = checked_limit(limit)
        expired: list[Expired] = []
        while len(expired) != limit and (first := self._first()) and first.deadline <= now:
            self._unfile(first)
            self._floor = max(self._floor, first.deadline)
            expired.append(self._expire(first))
        if len(expired) != limit:
            self._floor = max(self._floor, now)
        self._fit()
        return expired

    def next_expiration(self) -> int | None:
        first = self._first()
        return None if first is None else first.deadline

    def rings(self) -> list[RingView]:
        """
        Return the ring of days, preceded by the entries that are never due.
        """
        counts = {day: len(page) for day, page in enumerate(self._days) if page}
        parked = {0: len(self._parked)} if self._parked else {}
        year = RingView("year", len(self._days), self._width, self._day_of(self._floor), counts)
        return [RingView("never", 1, 0, None, parked), year]

    def check(self) -> None:
        self._check_counts()
        pages = [self._parked, *self._days]
        for page in pages:
            page.check()
        assert sum(map(len, pages)) == len(self)
        assert all(self._entries[entry.id] is entry for page in pages for entry in page)
        assert all(entry.deadline == NEVER for entry in self._parked)
        for day, page in enumerate(self._days):
            assert all(self._day_of(max(entry.deadline, entry.tick)) == day for entry in page)
            assert all(entry.tick <= self._floor for entry in page)
        entries = [entry for page in self._days for entry in page]
        assert not self._is_first_known or self._known_first is min(entries, key=by_order, default=None)

    def _day_of(self, time: int) -> int:
        return time // self._width % len(self._days)

    def _open(self, days: int, width: int) -> None:
        self._width = width
        self._days = [DueRun() for _ in range(days)]

    def _file(self, entry: Entry) -> None:
        if entry.deadline == NEVER:
            self._parked.add(entry)
            return
        entry.tick = self._floor
        self._days[self._day_of(max(entry.deadline, self._floor))].add(entry)
        if self._is_first_known and (self._known_first is None or entry < self._known_first):
            self._known_first = entry
        self._fit()

    def _unfile(self, entry: Entry) -> None:
        super()._unfile(entry)
        if entry is self._known_first:
            self._known_first, self._is_first_known = None, False

    def _where(self, entry: Entry) -> tuple[int, int]:
        if entry.deadline == NEVER:
            return 0, 0
        return 1, self._day_of(max(entry.deadline, entry.tick))

    def _clear(self) -> None:
        for page in (self._parked, *self._days):
            page.clear()
        self._open(DAYS_MIN, 1)
        self._known_first, self._is_first_known = None, True

    def _first(self) -> Entry | None:
        if not self._is_first_known:
            self._known_first, self._is_first_known = self._find_first(), True
        return self._known_first

    def _find_first(self) -> Entry | None:
        # Search this year from today on; if it has no entry, take the earliest entry of all later years.
        today = self._floor // self._width
        for day in range(today, today + len(self._days)):
            first = self._days[day % len(self._days)].first()
            if first is not None and first.deadline < (day + 1) * self._width:
                return first
        return min(filter(None, (page.first() for page in self._days)), key=by_order, default=None)

    def _fit(self) -> None:
        # Build a new calendar when there are twice as many entries as days, or half as many.
        filed = len(self._entries) - len(self._parked)
        days = len(self._days)
        if DAYS_MIN <= 2 * days < filed or filed < days // 2 >= DAYS_MIN:
            entries = sorted(self._filed(), key=by_order)
            self._open(max(1 << filed.bit_length(), DAYS_MIN), _width_for(entries))
            for entry in entries:
                self._days[self._day_of(max(entry.deadline, entry.tick))].add(entry)
            self._counts["refiled"] += len(entries)

    def _filed(self) -> Iterator[Entry]:
        for page in self._days:
            yield from page


def _width_for(entries: list[Entry]) -> int:
    quarter = len(entries) // 4
    middle = entries[quarter : len(entries) - quarter]
    separation = (middle[-1].deadline - middle[0].deadline) // len(middle) if middle else 0
    return max(A_PAGE * separation, 1)


def _advise(_: Load) -> Geometry:
    return Geometry({}, ("it fits its own geometry; a crowd of near deadlines beside far ones shares one page",))


CARD = Card(
    "calendar",
    CalendarWheel,
    "#666666",
    "the skew: a width that suits most entries crowds the others into one page",
    ("operation", "burst"),
    _advise,
)
