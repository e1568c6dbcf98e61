"""
The rate at which far jobs are set, fired and settled.

It is compared with the rate of jobs that are due at once.
"""

from __future__ import annotations

import time
from typing import Final

import psycopg

from benchmarks.durable import network
from benchmarks.durable.far import SPAN_MS, instants, packed
from benchmarks.durable.file import BATCH, PAYLOAD, SEED, batched, do_nothing, wait_for
from benchmarks.model import Measure
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["CYCLE", "NEAR_CYCLE", "cycles"]

CYCLE: Final = "far set+fire+settle"
NEAR_CYCLE: Final = "near set+fire+settle"


def cycles(url: str, pending: int, keys: list[str]) -> list[Measure]:
    """
    Measure how fast far jobs are set and fired, and then the same with jobs that are due now.

    The new far jobs are due in days, so they cannot fire in this run. In their place the same number of older jobs
    fires, which became due while no process ran. The store has *pending* jobs at the start.
    """
    late = SPAN_MS * len(keys) // pending
    network.fill(url, pending, first=time.time_ns() // 1_000_000 - late, span=SPAN_MS)
    packed(url)
    far = _cycle(url, keys, [instant / 1000 for instant in instants(SEED + 3, len(keys))])
    near = _cycle(url, [f"near {key}" for key in keys], [time.time()] * len(keys))
    return [Measure(CYCLE, far, "per second", "wall"), Measure(NEAR_CYCLE, near, "per second", "wall")]


def _cycle(url: str, keys: list[str], seconds: list[float]) -> float:
    """
    Set jobs with *keys* while no process fires. Then start an owner, and fire the due jobs until they are settled.

    Return the rate of both steps together, in jobs per second.
    """
    begin = time.perf_counter()
    client = Scheduler(url)  # the client is not started, so it fires nothing
    for part in batched(list(zip(keys, seconds, strict=True)), BATCH):
        client.set_many([SetRequest(key, at=at, payload=PAYLOAD, handler="nothing") for key, at in part])
    client.stop()
    set_s = (time.perf_counter() - begin) / len(keys)
    now = time.time_ns() // 1_000_000
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM tickwheel_job WHERE due_at <= %s", (now,)).fetchone()
    count = int(found[0]) if found else 0
    begin = time.perf_counter()
    with Scheduler(url) as owner:
        owner.handler("nothing")(do_nothing)
        wait_for(owner, count)
        return 1 / (set_s + (time.perf_counter() - begin) / count)
