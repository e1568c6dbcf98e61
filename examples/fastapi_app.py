"""
Cancel unpaid orders, in FastAPI.

    uvicorn fastapi_app:app --app-dir examples --workers 4

Of the four workers one fires, whichever comes first, and another one takes over when it ends.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException

from tickwheel.scheduler import AsyncScheduler

scheduler = AsyncScheduler(os.environ.get("JOBS", "sqlite:///jobs.db"))
cancelled: list[int] = []


@scheduler.handler("cancel-order")
async def cancel_order(number: int) -> None:
    """
    Run when nobody has paid in time.
    """
    cancelled.append(number)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """
    Start the scheduler with the application, and stop it with it.
    """
    await scheduler.start(role="auto")
    try:
        yield
    finally:
        await scheduler.stop()


def get_scheduler() -> AsyncScheduler:
    """
    Return the scheduler; a test overrides this dependency.
    """
    return scheduler


app = FastAPI(lifespan=lifespan)
Jobs = Annotated[AsyncScheduler, Depends(get_scheduler)]


@app.post("/orders/{number}", status_code=201)
async def order(number: int, jobs: Jobs, minutes: float = 30) -> dict[str, int]:
    """
    Take an order, which is cancelled unless it is paid.
    """
    answer = await jobs.set(f"order/{number}", delay=60 * minutes, handler="cancel-order", payload=number)
    assert answer.job is not None
    return {"cancelled_at": answer.job.due_at}


@app.post("/orders/{number}/payment", status_code=204)
async def pay(number: int, jobs: Jobs) -> None:
    """
    Take a payment, unless it comes too late.
    """
    answer = await jobs.cancel(f"order/{number}")
    if answer.outcome != "cancelled":
        raise HTTPException(409, f"order {number} is {answer.outcome}")
