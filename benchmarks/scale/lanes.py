"""
The cost of very many lanes that make no progress.

Measures the start and the memory of an owner, and how late the jobs of a healthy lane fire.
"""

from __future__ import annotations

from typing import Final

from benchmarks.durable.file import batched
from benchmarks.durable.waiting import lateness, restart
from benchmarks.model import Measure
from benchmarks.scale.redis import redis_partitions, redis_server
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["COUNT", "HEALTHY", "LANES", "SUBJECTS", "measure"]

LANES: Final = "lanes"
COUNT: Final = 100_000
HEALTHY: Final = 2_000
_LOT: Final = 5_000
SUBJECTS: Final = {"tickwheel-redis": redis_server, "tickwheel-redis-partitions": redis_partitions}


def measure(subject: str, count: int) -> list[Measure]:
    """
    Set a due job for each of *count* pull queues without workers.

    Start an owner. Then fire the jobs of one handler, and measure how late they are.
    """
    with SUBJECTS[subject]() as (url, _):
        client = Scheduler(url)  # the client is not started, so it fires nothing
        for numbers in batched(range(count), _LOT):
            client.set_many([SetRequest(f"waits/{n}", delay=0, target="pull", handler=f"queue-{n}") for n in numbers])
        client.stop()
        found = [each for each in restart(url, 0) if each.work != "due look-up"]
        return found + lateness(url, [f"healthy/{number}" for number in range(HEALTHY)])
