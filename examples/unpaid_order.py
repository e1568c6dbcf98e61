"""
Cancel an order that is not paid within half an hour after it was placed.

    python examples/unpaid_order.py [SECONDS [STORE]]

SECONDS replaces the half hour. The timer of an order is a job, whose key contains the order's number. Placing an order
sets the job, and paying cancels it. The result of `cancel` shows whether the payment came before the job fired.
"""

from __future__ import annotations

import sys
import threading

from tickwheel.scheduler import Outcome, Scheduler

HALF_AN_HOUR = 1800.0


class Shop:
    """
    A shop that keeps the state of each order by its number.
    """

    def __init__(self, scheduler: Scheduler, patience_s: float) -> None:
        self.orders: dict[str, str] = {}
        self.expired = threading.Event()
        self._scheduler = scheduler
        self._patience_s = patience_s
        self.expire_order = scheduler.task(name="expire-order")(self.expire)

    def place(self, number: str) -> None:
        """
        Accept an order, and set its timer.
        """
        self.orders[number] = "waiting for payment"
        self._scheduler.set(f"order/{number}", self.expire_order.of(number), delay=self._patience_s)

    def pay(self, number: str) -> bool:
        """
        Accept the payment and return True, or return False if the order's job is firing or has fired.
        """
        if self._scheduler.cancel(f"order/{number}").outcome is not Outcome.CANCELLED:
            return False  # the job has fired, or is firing now
        self.orders[number] = "paid"
        return True

    def expire(self, number: str) -> None:
        """
        Cancel an order that was not paid in time; the order's job calls this method.
        """
        self.orders[number] = "cancelled"
        self.expired.set()


def main(seconds: str = str(HALF_AN_HOUR), store: str = "memory://") -> None:
    """
    Place two orders, pay one, and wait for the other to expire.
    """
    with Scheduler(store) as scheduler:
        shop = Shop(scheduler, float(seconds))
        shop.place("17")
        shop.place("18")
        print("17 is paid in time:", shop.pay("17"))
        shop.expired.wait()
        print("18 is paid in time:", shop.pay("18"))
    for number, state in sorted(shop.orders.items()):
        print(number, state)


if __name__ == "__main__":
    main(*sys.argv[1:])
