"""
The prototype of a router over two primaries: the verbs on it, and one primary that is gone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tickwheel.scheduler import SetRequest, StoreError
from tickwheel.scheduler.stores._sharding import bucket_of

ROOT = Path(__file__).parents[3]
ROOMS = ("verbs", "pause", "bulk", "change", "skip", "backfill", "incidents", "forecast", "recurring", "cancel_running")
SOON_S = 10


@pytest.fixture(scope="module")
def prototype():
    """
    Return the two modules of the prototype, which are beside the package and not in it.
    """
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks.scale import placement, router  # noqa: PLC0415 - it can only be imported from here
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    finally:
        sys.path.remove(str(ROOT))
    return placement, router


@pytest.mark.usefixtures("prototype")
def test_the_tests_of_the_verbs(tmp_path):
    """
    The tests of the verbs of one scheduler pass on one that has two primaries: the faces take the router as it is.
    """
    files = [ROOT / "tests" / "scheduler" / f"test_{room}.py" for room in ROOMS]
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-p",
        "routed",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "not service",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(__file__).parent)))}
    environment.pop("TICKWHEEL_AS", None)  # `routed` loads tickwheel before another system could be shown to it
    answer = subprocess.run(
        [*command, "--basetemp", tmp_path / "inner", *files],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert answer.returncode == 0, answer.stdout
    assert int(re.search(r"(\d+) passed", answer.stdout)[1]) > 300


def test_where_keys_are(prototype):
    """
    Each primary has half of the keys, and what has the same tag is together.
    """
    placement, _ = prototype
    even = placement.Placement.even(2)
    places = [even.primary_of(f"key {number}") for number in range(10_000)]
    assert 4_500 < sum(places) < 5_500
    assert len({bucket_of(f"{{order 7}}/{number}") for number in range(100)}) == 1
    assert bucket_of("{}a") != bucket_of("{}b")


def test_one_primary_is_gone(prototype, make_postgres, until):
    """
    The keys of a primary that does not answer fail soon and by name, all others go on, and it is used when it is back.
    """
    placement, router = prototype
    servers = [make_postgres(), make_postgres()]
    fired, lock = set(), threading.Lock()

    def fire(_payload, firing):
        with lock:
            fired.add(firing.job.key)

    with router.RoutedScheduler(*(server.url("postgres") for server in servers)) as scheduler:
        scheduler.handler("h")(fire)
        place = placement.Placement.even(2).primary_of
        keys = [f"key {number}" for number in range(40)]
        scheduler.set_many([SetRequest(key, delay=0, handler="h") for key in keys])
        until(lambda: fired == set(keys))
        servers[1].stop()
        begun = time.monotonic()
        with pytest.raises(StoreError) as refused:
            scheduler.set(next(key for key in keys if place(key) == 1), delay=0, handler="h")
        assert refused.value.is_transient
        assert time.monotonic() - begun < SOON_S
        fired.clear()
        well = [key for key in keys if place(key) == 0]
        assert len(scheduler.set_many([SetRequest(key, delay=0, handler="h") for key in well])) == len(well)
        until(lambda: fired == set(well))
        servers[1].start()
        until(lambda: scheduler.set_many([SetRequest(key, delay=0, handler="h") for key in keys]))
        until(lambda: fired == set(keys))
