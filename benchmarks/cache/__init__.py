"""
TTL caches: tickwheel compared with cachebox, cachetools, theine and a plain dict.

In tickwheel, a thread removes expired entries.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from typing import Any

from benchmarks.cache import contenders
from benchmarks.model import Bar, Case, Measure
from benchmarks.process import resident

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

SIZES = (1_000, 1_000_000)
MILLION = 1_000_000
SEED = 20_260_101
LOOKUPS = 200_000
"""Number of operations in one round. Each operation uses a random key."""
ROUNDS = 5
"""Number of rounds. The fastest one counts, because other processes can only make a round slower."""
CONDITIONS = {
    "get": (
        "look up a key that is there, drawn at random; the cache is full, the keys are strings that have their hash, "
        "the lives are an hour"
    ),
    "set": "set a key that is there to another value; otherwise as get",
    "set with ttl": "the same with `cache.set(key, value, ttl=1800.0)`, a life of its own; in turns with set",
    "set with ttl, int": "the same with the ttl as an int",
    "set new": "fill an empty cache of that size, per key",
    "expire": "remove every entry in one call when the lives of all are over, per key; ours and cachetools' return "
    "the entries, cachebox's returns nothing, and theine has no such call",
    "bytes per entry": "growth of the resident set over the fill, by number of entries; keys, the values too, apart",
    "collector": "on, as in a program",
}
BARS = (
    Bar("get", against="cachebox", at_least=1),
    Bar("set", against="cachebox", at_least=1),
    Bar("get", against="cachetools"),
    Bar("set", against="cachetools"),
    Bar("set with ttl", against="tickwheel", against_work="set", at_least=0.6),
    Bar("set with ttl, int", against="tickwheel", against_work="set with ttl", at_least=0.9),
    Bar("expire", against="cachetools", pending=MILLION, at_least=1.5),
    Bar("bytes per entry", clock=""),
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases: every workload with every size for every installed subject.

    A quick run leaves out theine and cachetools at a million entries.
    """
    here = [name for name in contenders.SUBJECTS if contenders.is_here(name)]
    few = [name for name in here if name not in {"theine", "cachetools"}]
    return [
        Case(__name__, work, name, size)
        for work in ("operations", "expire")
        for size in SIZES
        for name in (few if quick and size == MILLION else here)
        if work == "operations" or name != "theine"
    ]


def measure(work: str, subject: str, pending: int) -> list[Measure]:
    """
    Run one case in this process.
    """
    keys = [f"key-{number}" for number in range(pending)]
    for key in keys:
        hash(key)
    if work == "expire":
        return [expire(subject, keys)]
    return operations(subject, keys)


def operations(subject: str, keys: list[str]) -> list[Measure]:
    """
    Measure the size of a full cache, and then the time of lookups and writes.
    """
    draw = random.Random(SEED)
    cache = contenders.make(subject, len(keys))
    gc.collect()
    before = resident()
    fill = timed(lambda: fill_with(cache, keys))
    found = [Measure("set new", fill / len(keys), "ns", "cpu")]
    found.append(Measure("bytes per entry", (resident() - before) / len(keys), "bytes"))
    drawn = draw.choices(keys, k=LOOKUPS)
    gets = min(timed(lambda: get_all(cache, drawn)) for _ in range(ROUNDS))
    found.append(Measure("get", gets / LOOKUPS, "ns", "cpu"))
    works: dict[str, Callable[[], object]] = {"set": lambda: fill_with(cache, drawn)}
    if subject == "tickwheel":
        works["set with ttl"] = lambda: fill_for(cache, drawn, 1800.0)
        works["set with ttl, int"] = lambda: fill_for(cache, drawn, 1800)
    spent = [[timed(work) for work in works.values()] for _ in range(ROUNDS)]
    for work, times in zip(works, zip(*spent, strict=True), strict=True):
        found.append(Measure(work, min(times) / LOOKUPS, "ns", "cpu"))
    return found


def expire(subject: str, keys: list[str]) -> Measure:
    """
    Let all entries expire, and time the one call that removes them.

    The lifetime is longer than the time to fill the cache, so that no entry expires earlier. Tickwheel's cache runs
    without its thread here, because the thread would remove the entries before the call.
    """
    life_s = 0.2 + 5e-6 * len(keys)
    if subject == "tickwheel":
        from tickwheel.cache import TTLCache  # noqa: PLC0415 - only where it is measured

        cache: Any = TTLCache(len(keys), life_s)
    else:
        cache = contenders.make(subject, len(keys), life_s)
    fill_with(cache, keys)
    time.sleep(life_s + 0.1)
    return Measure("expire", timed(cache.expire) / len(keys), "ns", "cpu")


def get_all(cache: Any, keys: list[str]) -> None:
    for key in keys:
        cache[key]


def fill_with(cache: Any, keys: list[str]) -> None:
    for key in keys:
        cache[key] = key


def fill_for(cache: Any, keys: list[str], ttl: float) -> None:
    """
    Store each key as its own value, with the given lifetime.
    """
    for key in keys:
        cache.set(key, key, ttl=ttl)


def timed(work: Callable[[], object]) -> int:
    """
    Return the CPU nanoseconds that *work* takes, in all threads together.
    """
    before = time.process_time_ns()
    work()
    return time.process_time_ns() - before
