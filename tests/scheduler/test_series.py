"""
A program sets its recurring jobs again at each start.

This changes neither the missed runs nor the next due times of the jobs.
"""

from __future__ import annotations

import json
import logging

import pytest

from tickwheel.scheduler import InvalidJobError, Outcome, RetryPolicy, Scheduler, SetRequest, Snooze
from tickwheel.testing import InlineScheduler, ManualClock

HOUR = 3_600
DAY = 24 * HOUR
SPELLINGS = [
    [{"every": 3600}, {"every": "1h"}, {"every": "PT1H"}, {"every": "60m"}, {"cron": "@every 1h"}, {"every": 3600.0}],
    [
        {"cron": "0 9 * * MON-FRI", "tz": "America/New_York"},
        {"cron": "0  9 * * 1-5", "tz": "US/Eastern"},
        {"cron": "TZ=America/New_York 0 9 ? * mon,tue,wed,thu,fri"},
        {"cron": "00 9 * * 1,2,3,4,5", "tz": "America/New_York", "delay": 5},
    ],
    [{"cron": "@daily"}, {"cron": "0 0 * * *", "tz": "Etc/UTC"}, {"cron": "0 0 */1 * *", "tz": "Zulu"}],
    [{"cron": "0 0 * * SUN"}, {"cron": "@weekly"}, {"cron": "0 0 * * 7"}],
    [
        {"every": 60, "exclude": ["2040-12-24/2040-12-26", "* * * * SAT,SUN"]},
        {"every": "1m", "exclude": ["* * * * 0,6", "2040-12-25/2040-12-26", "2040-12-24"]},
    ],
    [{"every": 60, "misfire": "all"}, {"every": 60, "misfire": "all", "overlap": "all", "jitter": "0s"}],
    [{"every": 60, "misfire": "skip"}, {"every": 60, "misfire": "skip", "misfire_grace": "1m"}],
]


@pytest.mark.parametrize("spellings", SPELLINGS)
def test_spellings(spellings):
    """
    All spellings of a rule are treated as the same rule.

    If a job is set with one spelling after another, its series stays unchanged.
    """
    scheduler = InlineScheduler(ManualClock())
    for first in spellings:
        key = json.dumps(first)
        job = scheduler.set(key, handler="h", payload={"a": 1, "b": [2]}, **first).job
        for other in spellings:
            answer = scheduler.set(key, handler="h", payload={"b": [2], "a": 1}, **other)
            assert (answer.outcome, answer.job) == (Outcome.UNCHANGED, job), other
            request = SetRequest(key, handler="h", payload={"a": 1, "b": [2]}, **other)
            assert [each.outcome for each in scheduler.set_many([request, request])] == [Outcome.UNCHANGED] * 2
    scheduler.stop()


def test_other_rules():
    """
    Rules with different due times are different rules, however similar they look.
    """
    scheduler = InlineScheduler(ManualClock())
    rules = [
        {"every": "1h"},
        {"cron": "@hourly"},
        {"cron": "0 * * * *", "tz": "Europe/Berlin"},
        {"cron": "0 * 1 * MON", "tz": "Europe/Berlin"},
        {"cron": "0 * * * *", "tz": "Asia/Kolkata"},
        {"cron": "0 * * * *", "tz": "Asia/Kolkata", "exclude": ["2040-01-01"]},
        {"cron": "0 * * * *", "tz": "Asia/Kolkata", "exclude": ["2040-01-01"], "max_runs": 3},
        {"every": "1h", "payload": 1},
        {"every": "1h", "payload": 1.0},
        {"every": "1h", "payload": True},
    ]
    scheduler.set("k", handler="h", **rules[-1])
    for rule in rules:
        assert scheduler.set("k", handler="h", **rule).outcome is Outcome.CHANGED, rule
        assert scheduler.set("k", handler="h", **rule).outcome is Outcome.UNCHANGED, rule
    scheduler.stop()


@pytest.mark.parametrize("verb", ["set", "change", "set_many"])
@pytest.mark.parametrize("every", [lambda _: DAY, lambda start: DAY + start % 3 - 1])
def test_a_program_that_starts_often(verb, every):
    """
    However often a program starts and sets its recurring job again, the runs keep their phase.

    This holds even if the declared interval changes a little.
    """
    clock, ran = ManualClock(), []
    scheduler = InlineScheduler(clock)
    scheduler.handler("h")(lambda _payload: ran.append(1))
    scheduler.start()
    scheduler.set("k", every=DAY, handler="h")
    for start in range(60):
        clock.advance(12 * HOUR)
        if verb == "set":
            scheduler.set("k", every=every(start), handler="h")
        elif verb == "change":
            scheduler.change("k", every=every(start))
        else:
            scheduler.set_many([SetRequest("k", every=every(start), handler="h")])
    assert 29 <= len(ran) <= 31
    scheduler.stop()


def test_max_runs_counts_from_the_first_set():
    """
    A series with a limited number of runs makes exactly that number, however often a program sets it again.

    The limit may be changed.
    """
    clock, ran = ManualClock(), []
    scheduler = InlineScheduler(clock)
    scheduler.handler("h")(lambda _payload: ran.append(1))
    scheduler.start()
    for _ in range(4):
        scheduler.set("k", every=HOUR, max_runs=5, handler="h")
        clock.advance(HOUR + 1)
    assert scheduler.set("k", every=HOUR, max_runs=9, handler="h").outcome is Outcome.CHANGED
    clock.advance(3 * HOUR)
    assert len(ran) == 7
    assert scheduler.set("k", every=HOUR, max_runs=7, handler="h").outcome is Outcome.CANCELLED
    assert scheduler.get("k") is None
    scheduler.stop()


def test_after_the_end():
    """
    A missed run takes place even if the rule is set again after its `until=` has passed.

    A new series with this `until=` is refused.
    """
    clock, ran = ManualClock(), []
    scheduler = InlineScheduler(clock)
    scheduler.handler("h")(lambda _payload: ran.append(1))
    end = clock.wall_ns() / 1e9 + HOUR + 1
    rule = {"every": HOUR, "until": end, "handler": "h"}
    scheduler.set("k", **rule)
    clock.advance(2 * HOUR)
    assert scheduler.set("k", **rule).outcome is Outcome.UNCHANGED
    scheduler.start()
    clock.advance(1)
    assert ran == [1]
    assert scheduler.get("k") is None
    with pytest.raises(InvalidJobError, match="no run is due until then"):
        scheduler.set("k", **rule)
    assert [each.outcome for each in scheduler.set_many([SetRequest("k", **rule)])] == [Outcome.FINISHED]
    scheduler.stop()


def test_a_dead_letter(caplog):
    """
    If a series has become a dead letter, setting the same rule again does not revive it, and is logged.

    Only `restart` begins a new series.
    """
    clock, ran = ManualClock(), []
    scheduler = InlineScheduler(clock)

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(_payload):
        ran.append(1)
        raise OSError

    scheduler.start()
    for _ in range(3):
        with caplog.at_level(logging.WARNING, "tickwheel.scheduler"):
            answer = scheduler.set("k", every=HOUR, max_runs=2, handler="h")
        clock.advance(3 * HOUR)
    assert (answer.outcome, len(ran)) == (Outcome.DEAD, 2)
    assert "'k' is a dead letter" in caplog.text
    assert scheduler.set("k", every=HOUR, max_runs=2, handler="h", mode="restart").outcome is Outcome.CREATED
    with pytest.raises(InvalidJobError, match="it is for recurring jobs"):
        scheduler.set("once", delay=5, handler="h", mode="restart")
    scheduler.stop()


@pytest.mark.parametrize("rule", [{"cron": "0 0 * * *", "jitter": "9m"}, {"every": DAY, "jitter": 500}])
def test_the_nominal_instant(rule):
    """
    A run keeps its nominal time (the time without jitter) if it is retried, snoozed or moved.

    The run also keeps this time if the job is set again.
    """
    clock, seen = ManualClock(), []
    scheduler = InlineScheduler(clock)

    @scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=600_000, jitter=0))
    def handler(_payload, firing):
        seen.append((firing.nominal_at, firing.attempt))
        if len(seen) == 2:
            return Snooze(HOUR)
        if len(seen) < 5:
            raise ValueError
        return None

    scheduler.start()
    job = scheduler.set("key 7", handler="h", **rule).job
    nominal = json.loads(job.recurrence).get("anchor_at", job.due_at // (DAY * 1000) * DAY * 1000)
    assert nominal < job.due_at < nominal + 600_000
    clock.advance((job.due_at - clock.wall_ns() // 1_000_000) / 1000 + 60)
    scheduler.set("key 7", handler="h", payload=2, **rule)
    clock.advance(DAY - 600)
    assert seen[:4] == [(nominal, 1), (nominal, 2), (nominal, 2), (nominal, 3)]
    clock.advance(600)
    assert seen[4:] == [(nominal + DAY * 1000, 1)]
    assert {record.nominal_at for record in scheduler.history("key 7") if record.attempt} == {each for each, _ in seen}
    scheduler.move("key 7", delay=DAY + HOUR)
    clock.advance(DAY + HOUR + 1)
    assert seen[5:] == [(nominal + 2 * DAY * 1000, 1)]
    earlier = scheduler.move("key 7", delay=HOUR).job.due_at
    clock.advance(DAY)
    assert seen[6:] == [(earlier, 1), (nominal + 3 * DAY * 1000, 1)]
    scheduler.run_now("key 7")
    clock.advance(1)
    assert abs(seen[-1][0] - clock.wall_ns() // 1_000_000) < 2_000
    scheduler.set("once", delay=1, handler="h")
    clock.advance(2)
    assert seen[-1] == (None, 1)
    scheduler.stop()


def test_nothing_is_written(tmp_path):
    """
    Setting the same rule again changes no byte of the database file.
    """
    path = tmp_path / "jobs.db"
    with_wal = path.with_name("jobs.db-wal")
    scheduler = Scheduler(f"sqlite:///{path}")
    scheduler.handler("h")(print)
    rules = [SetRequest(f"key {each}", every=HOUR + each, handler="h") for each in range(100)]
    scheduler.set_many(rules)
    before = with_wal.read_bytes(), path.read_bytes()
    answers = [*scheduler.set_many(rules), scheduler.set("key 0", every="1h", handler="h")]
    assert {answer.outcome for answer in answers} == {Outcome.UNCHANGED}
    assert (with_wal.read_bytes(), path.read_bytes()) == before
    scheduler.stop()
