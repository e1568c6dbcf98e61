"""
Test jobs with the fixtures of tickwheel's pytest plugin, in which the test moves the clock.

    cd examples; python -m pytest test_orders.py

The plugin is active as soon as tickwheel is installed; no conftest.py has to name it.
"""

from __future__ import annotations

import pytest

from tickwheel import TimerWheel
from tickwheel.testing import InlineScheduler, ManualClock
from unpaid_order import Shop

HALF_AN_HOUR = 1800


@pytest.fixture
def shop(scheduler: InlineScheduler) -> Shop:
    """
    Return the shop of `unpaid_order.py`, whose jobs fire inside `manual_clock.advance`.
    """
    return Shop(scheduler, HALF_AN_HOUR)


def test_an_unpaid_order_is_cancelled_after_half_an_hour(
    shop: Shop, scheduler: InlineScheduler, manual_clock: ManualClock
) -> None:
    """
    An unpaid order is not cancelled before half an hour has passed, and is cancelled exactly then.
    """
    shop.place("17")
    scheduler.assert_scheduled(shop.expire_order.of("17"), "order/17", delay="30m")
    manual_clock.advance(HALF_AN_HOUR - 1)
    assert shop.orders == {"17": "waiting for payment"}
    manual_clock.advance(1)
    assert shop.orders == {"17": "cancelled"}
    assert not shop.pay("17")


def test_a_paid_order_is_not_cancelled(shop: Shop, scheduler: InlineScheduler, manual_clock: ManualClock) -> None:
    """
    If an order is paid, the job that would cancel it is cancelled.
    """
    shop.place("18")
    assert shop.pay("18")
    assert scheduler.get("order/18") is None
    manual_clock.jump(HALF_AN_HOUR)
    assert shop.orders == {"18": "paid"}


def test_timers_and_jobs_are_on_one_clock(shop: Shop, wheel: TimerWheel, manual_clock: ManualClock) -> None:
    """
    If one call moves the clock by half an hour, a timer that is due before the job fires first.
    """
    seen: list[str] = []
    shop.place("19")
    wheel.call_later(HALF_AN_HOUR / 2, lambda: seen.append(shop.orders["19"]))
    manual_clock.advance(HALF_AN_HOUR)
    assert seen == ["waiting for payment"]
    assert shop.orders == {"19": "cancelled"}
