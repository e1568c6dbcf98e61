"""
What a scheduler does when it cannot know whether the store has done what it asked for.
"""

from __future__ import annotations

import pytest

from tickwheel.scheduler import RetryPolicy, Snooze
from tickwheel.scheduler.stores import MemoryStore
from tickwheel.testing.faulty_store import FaultyStore


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("how", ["retry", "snooze", "recur"])
def test_an_end_of_unknown_fate_loses_no_next_life(make, record, how, is_written):
    """
    When the answer to a settle is lost, the next attempt or run still fires, whether or not it was written.
    """
    store = FaultyStore(MemoryStore())
    scheduler = make(store)

    @scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=50, jitter=0.0))
    def handle(_payload, firing):
        is_first = not record.items
        record((firing.job.generation, firing.attempt))
        if is_first:
            store.fail("apply", after=is_written, is_unknown=True)
            if how == "retry":
                raise LookupError
            return Snooze(0.05) if how == "snooze" else None
        return None

    scheduler.start()
    scheduler.set("k", handler="h", **({"every": 0.2} if how == "recur" else {"delay": 0.0}))
    record.wait(2)
