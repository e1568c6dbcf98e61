"""
The delays between attempts.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import RetryPolicy
from tickwheel.jobs.retry import check_policy, wait_ms
from tickwheel.scheduler import Scheduler, SchedulerOptions, Snooze
from tickwheel.testing import InlineScheduler, ManualClock


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (RetryPolicy(kind="exponential", base_ms=100, max_ms=1000, jitter=0), [100, 200, 400, 800, 1000, 1000]),
        (RetryPolicy(kind="linear", base_ms=100, max_ms=350, jitter=0), [100, 200, 300, 350, 350, 350]),
        (RetryPolicy(kind="list", waits_ms=(5, 7), jitter=0), [5, 7, 7, 7, 7, 7]),
        (RetryPolicy(base_ms=0, jitter=0), [0, 0, 0, 0, 0, 0]),
    ],
)
def test_waits(policy, waits):
    """
    Each kind of retry policy has its own sequence of delays, and no delay exceeds the maximum of the policy.
    """
    assert [wait_ms(policy, attempt, 0.5) for attempt in range(1, 7)] == waits


def test_jitter_only_shortens():
    """
    Jitter shortens a delay by at most the given fraction.

    It never lengthens the delay.
    """
    policy = RetryPolicy(base_ms=1000, jitter=0.25)
    assert wait_ms(policy, 1, 0.0) == 1000
    assert wait_ms(policy, 1, 0.999_999) == 751
    assert wait_ms(RetryPolicy(base_ms=1000, jitter=1.0), 1, 0.5) == 500


def test_the_thousandth_attempt():
    """
    After any number of failures, the delay does not exceed its maximum.
    """
    assert wait_ms(RetryPolicy(attempts=1000, jitter=0), 999, 0.0) == 3_600_000


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (RetryPolicy(attempts=0), "retry.attempts is 0"),
        (RetryPolicy(attempts=1001), "1..1000"),
        (RetryPolicy(attempts=2.5), "retry.attempts is 2.5"),
        (RetryPolicy(kind="sometimes"), "exponential, linear, list"),
        (RetryPolicy(jitter=1.5), "a fraction in 0..1"),
        (RetryPolicy(kind="list"), "needs at least one wait"),
        (RetryPolicy(base_ms=-1), "integers of milliseconds"),
        (RetryPolicy(kind="list", waits_ms=(1, 10**12)), "integers of milliseconds"),
        ({"attempts": 3}, "pass a RetryPolicy"),
    ],
)
def test_bad_policies(policy, said):
    """
    For an invalid policy, the error names the fault.
    """
    with pytest.raises(InvalidJobError, match=said):
        check_policy(policy)


def test_waits_in_a_list():
    """
    The delays of a retry policy may be given as a list, wherever a retry policy is accepted.
    """
    policy = RetryPolicy(kind="list", waits_ms=[5, 7])
    with closing(Scheduler("memory://", options=SchedulerOptions(retry=policy))) as scheduler:
        scheduler.handler("h", retry=policy)(print)
        for fields in ({"target": "log", "retry": policy}, {"target": "log"}, {"handler": "h"}):
            assert scheduler.set("k", delay=60, **fields).job.retry.waits_ms == (5, 7)


@pytest.mark.parametrize("rule", [{}, {"every": 3600}, {"cron": "0 9 * * *"}, {"every": 3600, "misfire": "all"}])
@pytest.mark.parametrize("change", ["run_now", "move", "snoozed"])
def test_one_message_id_for_a_run(rule, change):
    """
    If a retry is moved or started by `run_now`, it sends the same message id as the first attempt of its run.
    """
    clock = ManualClock()
    scheduler = InlineScheduler(clock)
    retry = RetryPolicy(attempts=5, base_ms=60_000, jitter=0)
    sent = []

    @scheduler.handler("h")
    def handler(_payload, firing):
        sent.append(firing.message_id)
        if len(sent) < 3:
            if change == "snoozed":
                return Snooze(60)
            raise ConnectionError
        return None

    with closing(scheduler.start()):
        scheduler.set("key", handler="h", retry=retry, **(rule or {"delay": 1}))
        job = scheduler.get("key")
        clock.advance(job.due_at / 1000 - clock.wall_ns() / 1e9 + 0.001)
        for done in (1, 2):
            assert len(sent) == done
            if change == "move":
                scheduler.move("key", delay=0)
            else:
                scheduler.run_now("key")
            clock.advance(1)
        assert len(sent) == 3
        assert len(set(sent)) == 1
        if rule:
            clock.advance(90_000)
            assert len(sent) > 3
            assert sent[3] != sent[2]
