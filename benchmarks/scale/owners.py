"""
The cost of a job for clients and server when one, two or four owners share the store.

Each owner is a separate process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import psycopg

from benchmarks.durable.file import batched, do_nothing
from benchmarks.durable.server import postgres
from benchmarks.model import Measure
from benchmarks.process import cpu_s, parent_of, server_cpu_s
from benchmarks.scale.redis import redis_cluster, redis_partitions, redis_server
from tickwheel.scheduler import Scheduler, SetRequest
from tickwheel.stores import Store, open_store

__all__ = ["COUNTS", "JOBS", "OWNERS", "SUBJECTS", "measure", "own", "shared_out"]

OWNERS: Final = "owners"
COUNTS: Final = (1, 2, 4)
JOBS: Final = 20_000
_LOT: Final = 1_000


@contextmanager
def _postgres() -> Iterator[tuple[str, list[int]]]:
    with postgres() as url:
        with psycopg.connect(url) as connection:
            server = parent_of(connection.info.backend_pid)
        yield url, [server]


SUBJECTS: Final = {
    "tickwheel-postgres": _postgres,
    "tickwheel-redis": redis_server,
    "tickwheel-redis-cluster": redis_cluster,
    "tickwheel-redis-partitions": redis_partitions,
}


def measure(subject: str, rounds: int, jobs: int, counts: Sequence[int]) -> list[Measure]:
    """
    Measure the store of *subject* with each number of owners in *counts*, in turns.
    """
    costs: dict[int, list[tuple[float, float]]] = {count: [] for count in counts}
    with SUBJECTS[subject]() as (url, servers):
        for _ in range(rounds):
            for count, each in costs.items():
                each.append(_cycle(url, servers, count, jobs))
    return [
        Measure(f"{who}, {count} owner{'s' * (count > 1)}", statistics.quantiles(values, n=4)[0], "ns", "cpu")
        for count, each in costs.items()
        for who, values in zip(("clients", "server"), zip(*each, strict=True), strict=True)
    ]


def own(url: str) -> None:
    """
    Run as an owner until standard input is closed.
    """
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        sys.stdin.read()


def _cycle(url: str, servers: Sequence[int], count: int, jobs: int) -> tuple[float, float]:
    """
    Set and fire all jobs once.

    Return two CPU times for each job in ns: that of the setter and the owners, and that of the servers.
    """
    with ExitStack() as stack:
        store = open_store(url)
        stack.callback(store.close)
        setter = Scheduler(url)  # the setter is not started, so it fires nothing
        stack.callback(setter.stop)
        nodes = shared_out(url, setter, count, stack)
        keys = [f"{number}" for number in range(jobs)]
        _fire(setter, store, keys[:_LOT])  # also pays for one-time work

        def used() -> tuple[float, float]:
            return time.process_time() + sum(map(cpu_s, nodes)), sum(map(server_cpu_s, servers))

        before = used()
        _fire(setter, store, keys)
        clients, server = (1e9 * (end - begin) / jobs for begin, end in zip(before, used(), strict=True))
        return clients, server


def shared_out(url: str, setter: Scheduler, count: int, stack: ExitStack) -> list[int]:
    """
    Start *count* owners, which *stack* stops at its end.

    Wait until they share all shards, and return their process ids.
    """
    nodes = [stack.enter_context(_owner(url)) for _ in range(count)]
    while not _is_shared(Counter(each.owner for each in setter.shards()), count):
        time.sleep(0.1)  # the owners acquire their shards one by one
    return nodes


def _is_shared(owned: Counter[str | None], count: int) -> bool:
    """
    Return True if all shards are owned by *count* nodes, and their numbers of shards differ by at most one.
    """
    return None not in owned and len(owned) == count and max(owned.values()) - min(owned.values()) <= 1


@contextmanager
def _owner(url: str) -> Iterator[int]:
    """
    Start an owner, and yield its process id.

    The owner stops at the end of the block.
    """
    command = [sys.executable, "-c", f"from benchmarks.scale.owners import own; own({url!r})"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.communicate(timeout=60)


def _fire(setter: Scheduler, store: Store, keys: Sequence[str]) -> None:
    """
    Set jobs that are due at once, and wait until they are settled.
    """
    for lot in batched(keys, _LOT):
        setter.set_many([SetRequest(key, delay=0.0, handler="nothing") for key in lot])
    while (counts := store.count())["pending"] or counts["running"]:
        time.sleep(0.05)
