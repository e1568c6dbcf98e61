"""
The tasks of the shop, which `manage.py tickwheel` runs as jobs.
"""

from __future__ import annotations

from shop.models import Order
from tickwheel.integrations.django import jobs


@jobs.task
def cancel_order(number: int) -> None:
    """
    Cancel an order that was not paid in time.
    """
    Order.objects.filter(pk=number, state="open").update(state="cancelled")
