"""
Tests of the shop, in which each test moves the clock by hand and fires the jobs itself.
"""

from __future__ import annotations

from http import HTTPStatus

from django.test import TestCase

from shop.models import Order
from tickwheel.integrations.django import jobs
from tickwheel.testing import InlineScheduler, ManualClock


class OrderTest(TestCase):
    """
    Tests of paid and unpaid orders.
    """

    def setUp(self) -> None:
        """
        Let jobs fire in this process when the test moves the clock.
        """
        self.clock = ManualClock()
        scheduler = self.enterContext(InlineScheduler(self.clock))
        self.enterContext(jobs.using(scheduler))

    def test_an_unpaid_order_is_cancelled(self) -> None:
        """
        An order is cancelled unless it is paid in time.
        """
        self.client.post("/orders/17")
        self.client.post("/orders/18")
        self.clock.advance(29 * 60)
        assert self.client.post("/orders/17/payment").status_code == HTTPStatus.NO_CONTENT
        self.clock.advance(60)
        assert {order.pk: order.state for order in Order.objects.all()} == {17: "paid", 18: "cancelled"}
        assert self.client.post("/orders/18/payment").status_code == HTTPStatus.CONFLICT
