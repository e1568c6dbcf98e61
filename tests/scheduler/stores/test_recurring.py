"""
Recurring jobs on the stores of servers, by their clocks: what follows a run that is long, and what a run leaves.
"""

from __future__ import annotations

import time

import pytest

from tickwheel.observe.events import JobDied, JobFired
from tickwheel.scheduler import RetryPolicy

EVERY_MS = 500


@pytest.mark.parametrize(("overlap", "least", "most"), [("skip", 0, 0), ("once", 1, 1), ("all", 3, 99)])
def test_what_follows_a_long_run(server_url, make, events, until, overlap, least, most):  # noqa: PLR0917  fixtures
    """
    A run lasts past three instants: none, one or all of them are made up for, and then the series goes on as it was.
    """
    scheduler = make(server_url).start()
    told = events(scheduler)

    def runs():
        return [each.due_at for each in list(told.items) if isinstance(each, JobFired)]

    @scheduler.handler("h")
    def handler(_payload, firing):
        if len(runs()) == 1:
            end = (firing.job.due_at + 3.2 * EVERY_MS) / 1000
            time.sleep(max(0.0, end - time.time()))
        firing.progress(1, "done")

    scheduler.set("k", every=EVERY_MS / 1000, overlap=overlap, handler="h")
    until(lambda: [due_at for due_at in runs()[1:] if (due_at - runs()[0]) % EVERY_MS == 0])
    scheduler.cancel("k")
    between = [due_at for due_at in runs() if (due_at - runs()[0]) % EVERY_MS]
    assert least <= len(between) <= most
    assert {record.note for record in scheduler.history("k") if record.outcome == "succeeded"} == {"done"}


def test_cancel_the_other(server_url, make, events, until):
    """
    A run that is not over is asked to stop when the next one is due, which begins then.
    """
    scheduler = make(server_url).start()
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=3))
    def handler(_payload, firing):
        while sum(isinstance(each, JobFired) for each in list(told.items)) == 1:
            firing.heartbeat()
            time.sleep(0.001)

    scheduler.set("k", every=EVERY_MS / 1000, overlap="cancel", handler="h")
    until(lambda: sum(isinstance(each, JobFired) for each in list(told.items)) > 1)
    assert told.of(JobDied)[0].error == "its next run was due"
    scheduler.cancel("k")
