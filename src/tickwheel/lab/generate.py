"""
Generates synthetic traces of typical loads of timers, each from a seed.

| kind          | contents                                             | the size counts       | most timers are   |
|---------------|------------------------------------------------------|-----------------------|-------------------|
| `connections` | idle timeouts of 30 s, moved by traffic              | connections per second| cancelled         |
| `heartbeats`  | clients declared dead after 3 missed beats of 10 s   | clients               | moved             |
| `ttl-cache`   | writes to a cache, with the TTLs of a real cluster   | keys                  | moved, then fired |
| `cron-herd`   | jobs on the minute, the five minutes and the hour    | jobs                  | fired at once     |

The cache follows published facts of Twitter's clusters (`lab/clusters.py`): the rate, the shares of TTLs, writes and
deletes, and the skew of the keys.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tickwheel.lab.clusters import CLUSTERS
from tickwheel.lab.trace import TraceOperation

__all__ = ["KINDS", "Load", "generate"]

SECOND: Final = 1_000_000
SILENT: Final = 0.005
"""Probability that a connection or client falls silent after a message, so that its timeout fires."""


@dataclass(frozen=True, slots=True)
class Load:
    """
    A description of the trace to generate.

    *kind* is one of `KINDS`. *seconds* is the length of the trace; timers that are pending at its end fire later. The
    column "the size counts" of the module's table explains *size*. The same *seed* gives the same trace. A cache uses
    the statistics of *cluster*.
    """

    kind: str
    seconds: float = 60.0
    size: int = 1_000
    seed: int = 1
    cluster: str = "cluster4"


def generate(load: Load) -> Iterator[TraceOperation]:
    if load.kind not in KINDS:
        message = f"kind is {load.kind!r}: expected one of {', '.join(KINDS)}"
        raise ValueError(message)
    if load.cluster not in CLUSTERS:
        message = f"cluster is {load.cluster!r}: expected one of {', '.join(CLUSTERS)}"
        raise ValueError(message)
    if load.size < 1 or not 0 < load.seconds <= 10 * 365 * 86_400:
        message = f"size is {load.size!r} and seconds {load.seconds!r}: expected 1 or more, and up to ten years"
        raise ValueError(message)
    return KINDS[load.kind](load, random.Random(f"{load.kind} {load.seed}"))  # noqa: S311 a seed, not a secret


def _connections(load: Load, rng: random.Random) -> Iterator[TraceOperation]:
    # Arrivals are a Poisson process. A connection is active every half second, usually for seconds, rarely for minutes.
    timeout_us = 30 * SECOND
    end = load.seconds * SECOND
    events: list[tuple[float, int, float]] = [(rng.expovariate(load.size) * SECOND, 0, 0.0)]
    numbers = itertools.count(1)
    while events and events[0][0] < end:
        at, connection, closes = heapq.heappop(events)
        if connection == 0:
            heapq.heappush(events, (at + rng.expovariate(load.size) * SECOND, 0, 0.0))
            connection, closes = next(numbers), at + rng.lognormvariate(0.7, 1.2) * SECOND
        if at >= closes:
            yield TraceOperation(int(at), "C", f"connection {connection}", 0)
            continue
        yield TraceOperation(int(at), "S", f"connection {connection}", timeout_us)
        if rng.random() > SILENT:  # otherwise it falls silent, and its timeout fires
            heapq.heappush(events, (min(at + rng.expovariate(2.0) * SECOND, closes), connection, closes))


def _heartbeats(load: Load, rng: random.Random) -> Iterator[TraceOperation]:
    # A beat moves its client's timer; one client in two hundred leaves for a minute.
    beat_us = 10 * SECOND
    beats = [(rng.random() * beat_us, client) for client in range(load.size)]
    heapq.heapify(beats)
    while beats[0][0] < load.seconds * SECOND:
        at, client = beats[0]
        yield TraceOperation(int(at), "S", f"client {client}", 3 * beat_us)
        wait = 6 * beat_us if rng.random() < SILENT else beat_us * rng.uniform(0.98, 1.02)
        heapq.heapreplace(beats, (at + wait, client))


def _ttl_cache(load: Load, rng: random.Random) -> Iterator[TraceOperation]:
    cluster = CLUSTERS[load.cluster]
    draw_key = _zipf(load.size, cluster.zipf, rng)
    ttls, shares = list(cluster.ttls), list(cluster.ttls.values())
    changes = cluster.writes + cluster.deletes
    at = 0.0
    while (at := at + rng.expovariate(cluster.rate * changes) * SECOND) < load.seconds * SECOND:
        key = f"key {draw_key()}"
        if rng.random() * changes < cluster.deletes:
            yield TraceOperation(int(at), "C", key, 0)
        else:
            (ttl,) = rng.choices(ttls, shares)
            yield TraceOperation(int(at), "S", key, ttl * SECOND)


def _cron_herd(load: Load, rng: random.Random) -> Iterator[TraceOperation]:
    # A job is set when its worker starts, and again after each run, for the start of the next period.
    periods = rng.choices((60, 300, 3_600), (0.2, 0.3, 0.5), k=load.size)
    runs = [(rng.randrange(SECOND), job) for job in range(load.size)]
    heapq.heapify(runs)
    while runs[0][0] < load.seconds * SECOND:
        at, job = runs[0]
        period_us = periods[job] * SECOND
        due = (at // period_us + 1) * period_us
        yield TraceOperation(at, "S", f"job {job}", due - at)
        heapq.heapreplace(runs, (due + rng.randrange(1_000, 50_000), job))


def _zipf(keys: int, skew: float, rng: random.Random) -> Callable[[], int]:
    # The k-th key is drawn with a share of 1 / k ** skew.
    cumulated = list(itertools.accumulate(1 / rank**skew for rank in range(1, keys + 1)))
    total = cumulated[-1]
    return lambda: bisect.bisect_left(cumulated, rng.random() * total)


KINDS: Final[dict[str, Callable[[Load, random.Random], Iterator[TraceOperation]]]] = {
    "connections": _connections,
    "heartbeats": _heartbeats,
    "ttl-cache": _ttl_cache,
    "cron-herd": _cron_herd,
}
