"""
Cancel unpaid orders, in FastAPI.

    uvicorn fastapi_app:app --app-dir examples --workers 4

Only one of the four workers fires jobs. When that worker ends, another one takes over.
"""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException

from tickwheel.integrations.fastapi import Jobs
from tickwheel.scheduler import AsyncScheduler

jobs = Jobs(os.environ.get("JOBS", "sqlite:///jobs.db"))
cancelled: list[int] = []


@jobs.task(name="cancel-order")
async def cancel_order(number: int) -> None:
    """
    Cancel an order that was not paid in time.
    """
    cancelled.append(number)


app = FastAPI(lifespan=jobs.lifespan)
Scheduler = Annotated[AsyncScheduler, Depends(jobs)]


@app.post("/orders/{number}", status_code=201)
async def order(number: int, scheduler: Scheduler, minutes: float = 30) -> dict[str, int]:
    """
    Accept an order, and set the job that cancels it unless it is paid in time.
    """
    answer = await scheduler.set(f"order/{number}", cancel_order.of(number), delay=60 * minutes)
    return {"cancelled_at": answer.job.due_at}


@app.post("/orders/{number}/payment", status_code=204)
async def pay(number: int, scheduler: Scheduler) -> None:
    """
    Accept a payment, unless the order is already cancelled.
    """
    answer = await scheduler.cancel(f"order/{number}")
    if answer.outcome != "cancelled":
        raise HTTPException(409, f"order {number} is {answer.outcome}")
