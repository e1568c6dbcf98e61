"""
Orders.
"""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """
    An order, which is open until it is paid or cancelled.
    """

    state = models.CharField(max_length=9, default="open")

    def __str__(self) -> str:
        return f"order {self.pk} is {self.state}"
