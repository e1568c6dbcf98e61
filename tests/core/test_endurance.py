"""
Many threads and many operations lose nothing and leak nothing.

`TICKWHEEL_SOAK=1` runs the long forms.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path

from tickwheel._core import Engine, Timer

SOAK = bool(os.environ.get("TICKWHEEL_SOAK"))


def resident() -> int:
    """
    Return the resident memory of this process in bytes.
    """
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


CROWDS = """
from pathlib import Path
import gc
from tickwheel._core import Engine

for crowd in range(3):
    engine = Engine()
    timers = [engine.call_later(3600, print) for _ in range(400_000)]
    engine.cancel_many(timers)
    del engine, timers
    gc.collect()
    print(Path("/proc/self/statm").read_text().split()[1])
"""


def nothing() -> None:
    pass


def test_eight_threads_lose_nothing() -> None:
    """
    Eight threads set, move, cancel and fire timers on one engine.

    Every timer has one outcome, and the counts agree.
    """
    operations = 1_000_000 if SOAK else 20_000
    engine = Engine()
    fired = [0]
    lock = threading.Lock()
    cancelled: list[int] = []
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails

    def count() -> None:
        fired[0] += 1  # only the thread that runs the turn calls this

    def work(number: int) -> None:
        choose = random.Random(seed + number)
        mine: list[Timer] = []
        ended = 0
        for _ in range(operations):
            draw = choose.random()
            if draw < 0.4 or not mine:
                mine.append(engine.call_later(choose.choice([0, 1e-6, 1e-4, 1e-2, 10]), count))
            elif draw < 0.6:
                mine[choose.randrange(len(mine))].restart(choose.choice([0, 1e-5, 1e-3, 10]))
            elif draw < 0.9:
                ended += mine.pop(choose.randrange(len(mine))).cancel()
            else:
                engine.fire_due(choose.choice([None, 1, 100]))
        with lock:
            cancelled.append(ended)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.check()
    stats = engine.stats()
    assert stats["fires"] == fired[0]
    assert stats["cancels"] == sum(cancelled)
    assert stats["sets"] == stats["fires"] + stats["cancels"] + len(engine)
    assert len(engine.close()) == stats["pending"]


def test_memory_is_flat_under_churn() -> None:
    """
    If timers are repeatedly set and cancelled, the last round uses no more memory than the first.
    """
    rounds = 10_000_000 if SOAK else 500_000
    engine = Engine()
    for _ in range(100_000):
        engine.call_later(30.0, nothing).cancel()
    before, slab = resident(), engine.stats()["bytes"]
    for _ in range(rounds):
        engine.call_later(30.0, nothing, 1).cancel()
    assert engine.stats()["bytes"] == slab
    assert resident() - before < 2**20


def test_many_cancelled_timers_free_their_memory() -> None:
    """
    If a hundred thousand one-hour timers are cancelled, only one chunk of entries stays allocated.
    """
    engine = Engine()
    one = engine.call_later(3600, nothing)
    slab = engine.stats()["bytes"]
    timers = [engine.call_later(3600, nothing) for _ in range(100_000)]
    assert engine.stats()["bytes"] > 100 * slab
    engine.cancel_many(timers)
    # The table of chunks stays, with a few bytes for each 256 entries that existed.
    assert engine.stats()["bytes"] < slab * 4
    assert one.pending()


def test_each_burst_frees_the_memory_of_its_handles() -> None:
    """
    After each of three large bursts, no more memory stays in use than after the first one.

    A burst has more handles than the interpreter's own allocator holds, so their memory must return to the system. If
    macOS or Windows is simulated, Linux is set to return large blocks of memory, as these systems do.
    """
    environment = dict(os.environ)
    if "TICKWHEEL_AS" in environment:
        environment["MALLOC_MMAP_THRESHOLD_"] = str(2**20)
    ran = subprocess.run(
        [sys.executable, "-c", CROWDS], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    left = [int(pages) * resource.getpagesize() for pages in ran.stdout.split()]
    assert len(left) == 3
    assert max(left) - left[0] < 2**22, left
