"""
The history records the writes of callers, such as setting or cancelling a job.

By default it records only writes to recurring jobs. An option makes it record all writes.
"""

from __future__ import annotations

import pytest

from tickwheel.jobs.model import Actor
from tickwheel.jobs.requests import set_writes
from tickwheel.scheduler import HistoryOptions, SchedulerOptions, SetRequest


def outcomes(scheduler, key):
    """
    Return the recorded outcomes of the job *key*, the oldest first.
    """
    return [record.outcome for record in reversed(scheduler.history(key))]


@pytest.mark.parametrize(
    ("keep", "once", "series"),
    [
        ("none", [], []),
        ("failures", [], []),
        ("usual", [], ["created", "changed", "moved", "cancelled"]),
        ("all", ["created", "moved", "cancelled"], ["created", "changed", "moved", "cancelled"]),
    ],
)
def test_which_writes_are_recorded(url, make, keep, once, series):
    """
    Setting, moving or cancelling a job leaves a record that names the calling process.

    By default only writes to recurring jobs leave records. An option extends this to all jobs.
    """
    scheduler = make(url, options=SchedulerOptions(owner="me", history=HistoryOptions(keep=keep)))
    scheduler.set("once", delay=60, handler="h")
    scheduler.move("once", delay=70)
    scheduler.cancel_many(["once"])
    scheduler.set("series", every=60, handler="h")
    scheduler.set_many([SetRequest("series", cron="@daily", handler="h")])
    scheduler.run_now("series")
    scheduler.drain("series")
    assert (outcomes(scheduler, "once"), outcomes(scheduler, "series")) == (once, series)
    assert {record.by for record in scheduler.history("series")} <= {"me"}


def test_setting_a_one_time_job_leaves_no_record():
    """
    By default, setting a one-time job writes only the job and no record, whichever caller sets it.
    """
    policy_of = {}.get
    for fields, is_noted in (({"delay": 1}, False), ({"every": 60}, True)):
        (write,) = set_writes([SetRequest("k", handler="h", **fields)], 0, policy_of, actor=Actor("me"))
        assert (write.actor is not None) is is_noted
    (write,) = set_writes([SetRequest("k", handler="h", delay=1)], 0, policy_of, actor=Actor("me", is_always=True))
    assert write.actor


def test_in_the_callers_transaction(file_url, make, tmp_path):
    """
    A write in the caller's transaction is recorded if and only if the transaction is committed.
    """
    import sqlite3  # noqa: PLC0415  only here

    scheduler = make(file_url)
    scheduler.get("series")
    connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    for end, kept in (("ROLLBACK", []), ("COMMIT", ["created"])):
        connection.execute("BEGIN IMMEDIATE")
        scheduler.set("series", every=60, handler="h", conn=connection)
        connection.execute(end)
        assert outcomes(scheduler, "series") == kept
    connection.close()
