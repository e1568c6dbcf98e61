"""
Writes to the PostgreSQL store that happen during a hand-over of their shard.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import psycopg

from tickwheel.jobs import model
from tickwheel.stores import open_store
from tickwheel.stores.postgres import _ownership


def test_an_end_that_waits_for_a_hand_over(postgres, database, until):
    """
    If an attempt ends while its shard is handed over, its acknowledgement waits and then succeeds.
    """
    url = f"{postgres.url(database)}&shards=2"
    owner, joining = open_store(url), open_store(url)
    epochs = {lease.shard: lease.epoch for lease in owner.acquire("owner")}
    keys = itertools.groupby(sorted(map(str, range(20)), key=owner.shard_of), owner.shard_of)
    jobs = [owner.apply([model.Set(model.Job(next(each), 0, 5))])[0].job for _, each in keys]
    epoch_of = {job.key: epochs[owner.shard_of(job.key)] for job in jobs}
    begun = owner.apply([model.Begin(job, epoch_of[job.key]) for job in jobs])
    assert {answer.outcome for answer in begun} == {model.Outcome.BEGUN}
    joining.acquire("joining")
    ends = [model.Settle(job, epoch_of[job.key], model.Settled.DONE, 1) for job in jobs]
    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'tickwheel'"
    with psycopg.connect(postgres.url(database)) as connection, ThreadPoolExecutor(1) as pool:
        held = SimpleNamespace(writing=lambda: nullcontext(connection))
        seen = _ownership.view(held, "owner", 10_000, 2, is_guarded=True, is_taking=False)
        leases, _ = _ownership.keep(held, "owner", 10_000, seen, 0, is_taking=False)
        assert len(leases) == 2  # a shard, and the draining part of the other shard
        answers = pool.submit(owner.apply, ends)
        until(lambda: postgres.execute(waits))
        connection.commit()
        assert [answer.outcome for answer in answers.result(60)] == [model.Outcome.SETTLED] * 2
    assert owner.count()["running"] == 0
    owner.close()
    joining.close()
