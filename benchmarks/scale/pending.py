"""
Many waiting jobs.

Measures the rate of sets, the size of a job, the first firing after a restart, and the time of a list and a cancel.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.durable.far import LOT, instants
from benchmarks.durable.file import PAYLOAD, SEED, batched
from benchmarks.durable.waiting import restart
from benchmarks.model import Measure
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["LOOKS", "PARTS", "PENDING", "RARE", "measure"]

PENDING: Final = "pending"
PARTS: Final = 100
"""Number of key prefixes. Each prefix has the same number of jobs. The jobs are set one prefix after another."""
RARE: Final = 100
"""One in this number of jobs has the handler "rare"."""
PART: Final = "77"
"""A text that occurs in a few of a hundred keys."""
LOOKS: Final = 50


def measure(url: str, size_of: Callable[[], int], count: int) -> list[Measure]:
    """
    Set *count* jobs, and list some of them.

    Cancel the jobs of one prefix page by page, and drain the jobs of another prefix.
    """
    with_none = size_of()
    client = Scheduler(url)  # the client is not started, so it fires nothing

    def set_all() -> int:
        for numbers in batched(range(count), LOT):
            seconds = [instant / 1000 for instant in instants(SEED + numbers[0], len(numbers))]
            client.set_many([_request(number, count, at) for number, at in zip(numbers, seconds, strict=True)])
        return count

    found = _rate("set", set_all)
    client.stop()  # closes the file, which then contains all of its log
    found.append(Measure("disk per pending job", (size_of() - with_none) / count, "bytes"))
    found += restart(url, count)
    client = Scheduler(url)
    prefixes = [f"{place % PARTS:02}/" for place in range(LOOKS)]
    found += _page("page by prefix", client.list, prefixes)
    found += _page("page by handler", lambda prefix: client.list(prefix, handler="rare"), prefixes)
    found += _page("page by a handler without jobs", lambda prefix: client.list(prefix, handler="none"), prefixes)
    found += _page("page by a part of the key", lambda prefix: client.list(prefix, contains=PART), prefixes)
    found += _page("page by a part of no key", lambda prefix: client.list(prefix, contains="none"), prefixes)
    found += _rate("bulk cancel", lambda: client.bulk("cancel", "00/").changed)
    found += _rate("drain", lambda: len(client.drain("01/")))
    client.stop()
    return found


def _request(number: int, count: int, at: float) -> SetRequest:
    """
    Return a request for job *number* of *count*; the keys of the jobs sort in the order of their numbers.
    """
    key = f"{number * PARTS // count:02}/{number:010}"
    return SetRequest(key, at=at, payload=PAYLOAD, handler="nothing" if number % RARE else "rare")


def _page(work: str, look: Callable[[str], object], prefixes: Sequence[str]) -> list[Measure]:
    """
    Return the median time to list the first page of each of *prefixes*.
    """
    times = []
    for prefix in prefixes:
        begin, cpu = time.perf_counter(), time.process_time()
        look(prefix)
        times.append((1e3 * (time.perf_counter() - begin), 1e3 * (time.process_time() - cpu)))
    wall, used = map(statistics.median, zip(*times, strict=True))
    return [Measure(work, wall, "ms", "wall"), Measure(work, used, "ms", "cpu")]


def _rate(work: str, change: Callable[[], int]) -> list[Measure]:
    """
    Return how many jobs *change* handles per second, and the CPU time of this process for each job.
    """
    begin, cpu = time.perf_counter(), time.process_time()
    count = change()
    wall, used = time.perf_counter() - begin, time.process_time() - cpu
    return [
        Measure(work, count / wall, "per second", "wall"),
        Measure(f"{work}, each", 1e9 * used / count, "ns", "cpu"),
    ]
