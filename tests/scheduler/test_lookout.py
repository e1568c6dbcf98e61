"""
The regular sweep of the store: a job without a notification still fires within seconds.
"""

from __future__ import annotations

import time

from tickwheel.jobs.model import Job, Set
from tickwheel.stores import Abilities, MemoryStore

WAIT_S = 5.0
"""The promised maximum delay, in seconds."""


class Silent(MemoryStore):
    """
    A store that others write to, and that reports nothing.
    """

    abilities = Abilities(has_notify=True)


def test_a_job_that_nobody_told_of(make, record):
    """
    A job that appears in the store behind the cursor, without a hint and without a note, is not quiet for long.
    """
    store = Silent()
    scheduler = make(store).start()
    scheduler.handler("h")(record)
    scheduler.set("known", delay=0, handler="h", payload="known")
    record.wait(1)
    started = time.monotonic()
    store.apply([Set(Job("unknown", 0, store.now_ms() + 10, b'"unknown"', handler="h"))])
    assert record.wait(2) == ["known", "unknown"]
    assert time.monotonic() - started < WAIT_S
