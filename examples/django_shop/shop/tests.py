"""
Tests of the shop: time is the test's own, and no process fires but this one.
"""

from __future__ import annotations

from http import HTTPStatus

from django.test import TestCase

from shop.models import Order
from tickwheel.integrations.django import jobs
from tickwheel.testing import InlineScheduler, ManualClock


class OrderTest(TestCase):
    """
    What becomes of orders.
    """

    def setUp(self) -> None:
        """
        Let jobs fire as the clock moves.
        """
        self.clock = ManualClock()
        scheduler = self.enterContext(InlineScheduler(self.clock))
        self.enterContext(jobs.using(scheduler))

    def test_an_unpaid_order_is_cancelled(self) -> None:
        """
        One that is paid in time is not.
        """
        self.client.post("/orders/17")
        self.client.post("/orders/18")
        self.clock.advance(29 * 60)
        assert self.client.post("/orders/17/payment").status_code == HTTPStatus.NO_CONTENT
        self.clock.advance(60)
        assert {order.pk: order.state for order in Order.objects.all()} == {17: "paid", 18: "cancelled"}
        assert self.client.post("/orders/18/payment").status_code == HTTPStatus.CONFLICT
