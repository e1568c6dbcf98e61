"""
While an owner claims very many unroutable jobs, it also reads the writes of other processes.
"""

from __future__ import annotations

import time
from itertools import pairwise

from tickwheel.engine import _staging
from tickwheel.scheduler import Scheduler, SetRequest
from tickwheel.stores import open_store

JOBS = 300


def test_changes_are_read_between_two_pages(redis_server, record, until, monkeypatch):
    """
    However many unroutable jobs a scan has to claim, it claims them for a limited time, and then reads changes.
    """
    url = redis_server.empty_url()
    store, calls = open_store(url), []
    with Scheduler(url) as lacking:
        lacking.handler("other")(record)
        lacking.set_many([SetRequest(f"{n}", delay=0, handler="h") for n in range(JOBS)])
        until(lambda: sum(each.count for each in store.aside()) == JOBS)
    monkeypatch.setattr(_staging, "_PAGE", 4)
    monkeypatch.setattr(_staging, "_TAKING_S", 0.005)
    take_up, look = store.take_up, store.look

    def slow_take_up(*args, **keywords):
        jobs = take_up(*args, **keywords)
        calls.append("take_up" if jobs else "nothing")
        time.sleep(0.01)
        return jobs

    def noted_look(*args, with_changes):
        calls.append("changes" if with_changes else "look")
        return look(*args, with_changes=with_changes)

    store.take_up, store.look = slow_take_up, noted_look
    with Scheduler(store) as scheduler:
        scheduler.handler("h")(record)
        assert len(record.wait(JOBS)) == JOBS
    pages = [number for number, call in enumerate(calls) if call == "take_up"]
    assert len(pages) >= JOBS / 4
    assert all("changes" in calls[one:other] for one, other in pairwise(pages))
