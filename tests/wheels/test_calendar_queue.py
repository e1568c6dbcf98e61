"""
The calendar queue passes the contract suite of wheels, and adapts its pages to the pending entries.
"""

import random

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.calendar_queue import CalendarWheel


class TestCalendar(WheelSuite):
    """
    The contract suite on the calendar queue.
    """

    def make_wheel(self, start: int) -> CalendarWheel:
        wheel = CalendarWheel()
        wheel.advance(start)
        return wheel


def fullest(wheel: CalendarWheel) -> int:
    return max(wheel.rings()[1].counts.values())


def test_pages_stay_short_where_deadlines_spread() -> None:
    """
    If ten thousand deadlines are spread evenly over a span of any length, each page has fewer than fifty of them.
    """
    dice = random.Random(7)
    for span in (10**5, 10**9, 10**15):
        wheel = CalendarWheel()
        for _ in range(10_000):
            wheel.insert(dice.randrange(span), None)
        assert fullest(wheel) < 50
        assert wheel.stats()["refiled"] < 4 * 10_000, "each growth doubles, so all of them cost a constant each"


def test_skew_crowds_a_page() -> None:
    """
    If a quarter of the deadlines is very close together, one page has all of them.
    """
    wheel = CalendarWheel()
    for number in range(3_000):
        wheel.insert(10**9 + number * 10**6, None)
    for number in range(1_000):
        wheel.insert(10**8 + number, None)
    assert fullest(wheel) >= 1_000
    assert [entry.deadline for entry in wheel.advance(10**8 + 999)] == [10**8 + number for number in range(1_000)]


def test_an_emptied_queue_has_fewer_pages() -> None:
    """
    A calendar queue that becomes nearly empty reduces the number of its pages.
    """
    wheel = CalendarWheel()
    ids = [wheel.insert(number * 1_000, None) for number in range(10_000)]
    grown = wheel.rings()[1].slots
    for id_ in ids[:-3]:
        wheel.cancel(id_)
    wheel.advance(0)
    assert wheel.rings()[1].slots < grown // 100
    wheel.check()
