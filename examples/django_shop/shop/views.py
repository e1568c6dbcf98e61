"""
Orders and payments; each view changes an order and its job in one transaction.
"""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from shop.jobs import cancel_order
from shop.models import Order
from tickwheel.integrations.django import jobs


@csrf_exempt
@transaction.atomic
def order(request: HttpRequest, number: int) -> HttpResponse:
    """
    Accept an order, and set the job that cancels it unless it is paid in time.
    """
    minutes = float(request.GET.get("minutes", "30"))
    Order.objects.create(pk=number)
    jobs.scheduler.set(f"order/{number}", cancel_order.of(number), delay=60 * minutes)
    return HttpResponse(status=201)


@csrf_exempt
@transaction.atomic
def pay(_request: HttpRequest, number: int) -> HttpResponse:
    """
    Accept a payment, unless the order is already cancelled.
    """
    if jobs.scheduler.cancel(f"order/{number}").outcome != "cancelled":
        return HttpResponse(status=409)
    Order.objects.filter(pk=number).update(state="paid")
    return HttpResponse(status=204)
