"""
The verbs set, move, cancel, run_now, replay, get and list.

They give the documented answers on every store.
"""

from __future__ import annotations

import json
import math
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from years import YEAR

from tickwheel.errors import ClosedError, InvalidDelayError
from tickwheel.scheduler import (
    InvalidJobError,
    Outcome,
    RecurrenceError,
    RetryPolicy,
    Scheduler,
    SetRequest,
    State,
    StoreError,
)

HOUR = 3600


@pytest.fixture(params=["memory", "sqlite", "http"])
def client(request, make, tmp_path):
    """
    Return a scheduler that was not started, on each kind of store and on a service.
    """
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path / 'jobs.db'}"}
    return make(urls.get(request.param, lambda: request.getfixturevalue("service_url"))())


@pytest.fixture(scope="module", params=["memory", "sqlite", "http"])
def refusing(request, tmp_path_factory):
    """
    Return a scheduler that was not started.

    All tests that store nothing share it.
    """
    folder = tmp_path_factory.mktemp("refusing")
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{folder / 'jobs.db'}"}
    with closing(
        Scheduler(urls.get(request.param, lambda: request.getfixturevalue("lasting_service_url"))())
    ) as scheduler:
        yield scheduler


def test_set_and_get(client):
    """
    A job that was set can be read, and has the given fields.
    """
    policy = RetryPolicy(attempts=2, kind="list", waits_ms=(5,))
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    answer = client.set("k", delay=HOUR, handler="h", payload={"a": [1]}, retry=policy, expires=60, trace=trace)
    assert answer.outcome is Outcome.CREATED
    job = client.get("k")
    assert job == answer.job
    assert (job.key, job.handler, job.payload, job.retry, job.trace) == ("k", "h", b'{"a":[1]}', policy, trace)
    assert (job.state, job.attempt, job.expires_at) == (State.PENDING, 0, job.due_at + 60_000)


def test_a_kept_payload(client):
    """
    A job that is set again can keep the payload of the existing job.

    A request that also gives a payload is refused.
    """
    client.set("k", delay=HOUR, handler="h", payload={"a": 1})
    assert client.set("k", delay=1800, handler="other", keep_payload=True).job.payload == b'{"a":1}'
    many = client.set_many([SetRequest("k", delay=HOUR, handler="h", keep_payload=True)])
    assert (many[0].job.payload, many[0].job.handler) == (b'{"a":1}', "h")
    assert client.set("k", delay=HOUR, handler="h").job.payload == b"null"
    with pytest.raises(InvalidJobError, match="pass payload= or keep_payload=True, not both"):
        client.set("k", delay=HOUR, handler="h", payload=1, keep_payload=True)
    with pytest.raises(InvalidJobError, match="keep_payload is 'yes': pass True or False"):
        client.set("k", delay=HOUR, handler="h", keep_payload="yes")


def test_delay_and_at_agree(client):
    """
    A delay and an instant give the same due time, within about a millisecond.
    """
    later = datetime.now(UTC) + timedelta(hours=1)
    by_at = client.set("a", at=later, handler="h").job
    by_seconds = client.set("b", at=later.timestamp(), handler="h").job
    assert by_at.due_at == by_seconds.due_at == math.ceil(later.timestamp() * 1000)
    by_delay = client.set("c", delay=HOUR, handler="h").job
    assert 0 <= by_delay.due_at - by_at.due_at < 60_000


def test_timedeltas_and_iso_text(client):
    """
    A timedelta is accepted wherever a length of time is accepted.

    ISO 8601 text with an offset is accepted wherever an instant is accepted.
    """
    hour, until = timedelta(hours=1), f"{YEAR}-01-01T01:00:00+01:00"
    at_ms = int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp()) * 1000
    job = client.set("at", at=until, expires=hour, handler="h").job
    assert (job.due_at, job.expires_at) == (at_ms, at_ms + HOUR * 1000)
    every = client.set("every", at=until, every=hour, jitter=timedelta(0), handler="h").job
    assert every.recurrence == client.set("again", at=until, every=HOUR, handler="h").job.recurrence
    by_seconds, by_delta = (client.set(f"{delay}", delay=delay, handler="h").job.due_at for delay in (HOUR, hour))
    assert 0 <= by_delta - by_seconds < 60_000
    put_off = [client.set("bounded", delay=2 * HOUR, max_wait=wait, handler="h").job.due_at for wait in (HOUR, hour)]
    assert abs(put_off[1] - by_delta) < 60_000
    assert client.move("every", at=f"{YEAR - 1}-12-31T23:30Z").job.due_at == at_ms - 1_800_000
    assert abs(client.move("every", delay=hour).job.due_at - by_delta) < 60_000
    assert [found.key for found in client.list(due_from=until, due_until=f"{YEAR + 1}-01-01T00:00Z").jobs] == [
        "again",
        "at",
    ]
    assert [found.key for found in client.upcoming(f"{YEAR - 1}-01-01T00:00Z", f"{YEAR - 1}-01-02T00:00Z")] == []
    assert client.forecast(until, hour, 2) == [2, 0]


def test_durations_as_text(client):
    """
    Text with units and in ISO 8601 format is accepted as a length of time.

    `@every` is an interval of elapsed time.
    """
    until, at_ms = f"{YEAR}-01-01T00:00Z", int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp()) * 1000
    by_number = client.set("number", at=until, every=5400, jitter=90, expires=HOUR, handler="h").job
    for key, every, jitter, expires in (("units", "1h30m", "90s", "60m"), ("iso", "PT1H30M", "PT90S", "PT1H")):
        job = client.set(key, at=until, every=every, jitter=jitter, expires=expires, handler="h").job
        assert (job.recurrence, job.expires_at - job.due_at) == (by_number.recurrence, HOUR * 1000)
    job = client.set("line", at=until, cron=" @every\t1h30m ", jitter="90s", expires="1h", handler="h").job
    assert (job.recurrence, client.set("daily", at=until, cron="@daily", handler="h").job.due_at) == (
        by_number.recurrence,
        at_ms,
    )
    delayed, moved = client.set("delay", delay="2h", handler="h").job, client.move("delay", delay="PT3H").job
    assert HOUR * 1000 - 60_000 < moved.due_at - delayed.due_at < HOUR * 1000 + 60_000
    put_off = client.set("delay", delay="2d", max_wait="1d", handler="h").job
    assert put_off.due_at - put_off.first_set_at == 86_400_000
    assert client.forecast(f"{YEAR - 1}-12-31T23:30Z", "1h", 1) == [5]


def test_a_delay_never_ends_early(client):
    """
    A job with a delay is not due before the start of the call plus the delay.
    """
    before = datetime.now(UTC).timestamp()
    for n in range(50):
        job = client.set(f"k{n}", delay=HOUR + n / 1000, handler="h").job
        assert job.due_at >= (before + HOUR + n / 1000) * 1000


def test_modes(client):
    """
    If a key is set a second time, the mode decides: the job is replaced, kept, or gets the earlier due time.
    """
    first = client.set("k", delay=HOUR, handler="h", payload=1).job
    kept = client.set("k", delay=1, handler="h", payload=2, mode="keep")
    assert (kept.outcome, kept.job) == (Outcome.KEPT, first)
    earliest = client.set("k", delay=2 * HOUR, handler="h", payload=3, mode="earliest")
    assert (earliest.outcome, earliest.job.due_at, earliest.job.payload) == (Outcome.REPLACED, first.due_at, b"3")
    replaced = client.set("k", delay=2 * HOUR, handler="h", payload=4)
    assert replaced.outcome is Outcome.REPLACED
    assert replaced.job.due_at > first.due_at
    assert replaced.job.generation > earliest.job.generation > first.generation


def test_a_debounce_ends(client):
    """
    If a job is set again and again to postpone it (a debounce), it is not moved past `max_wait=`.
    """
    first = client.set("k", delay=60, handler="h", max_wait=90).job
    later = client.set("k", delay=HOUR, handler="h", max_wait=90).job
    assert later.due_at == first.first_set_at + 90_000


def test_generations(client):
    """
    A write that requires a generation changes nothing if the job has another generation.

    The answer shows the job.
    """
    assert client.set("k", delay=HOUR, handler="h", if_generation=0).outcome is Outcome.CREATED
    job = client.get("k")
    wrong = job.generation + 5
    for answer in (
        client.set("k", delay=1, handler="h", if_generation=0),
        client.set("k", delay=1, handler="h", if_generation=wrong),
        client.move("k", delay=1, if_generation=wrong),
        client.run_now("k", if_generation=wrong),
        client.cancel("k", if_generation=wrong),
    ):
        assert (answer.outcome, answer.job) == (Outcome.WRONG_GENERATION, job)
    assert client.get("k") == job
    assert client.cancel("k", if_generation=job.generation).outcome is Outcome.CANCELLED


def test_move_and_cancel(client):
    """
    A pending job is moved and cancelled, with the documented answers.

    For an unknown key, the answer is "not found".
    """
    first = client.set("k", delay=HOUR, handler="h").job
    moved = client.move("k", at=first.due_at / 1000 + 60)
    assert (moved.outcome, moved.job.due_at) == (Outcome.MOVED, first.due_at + 60_000)
    assert client.cancel("k").outcome is Outcome.CANCELLED
    assert client.get("k") is None
    assert client.move("k", delay=1).outcome is Outcome.NOT_FOUND
    assert client.cancel("k").outcome is Outcome.NOT_FOUND
    assert client.replay("k").outcome is Outcome.NOT_FOUND


def test_many(client):
    """
    Many jobs are set in one call, and the answers are in the order of the requests.

    If one request is invalid, no job is set.
    """
    answers = client.set_many([SetRequest(f"k{n}", delay=HOUR, handler="h", payload=n) for n in range(2500)])
    assert [answer.job.key for answer in answers] == [f"k{n}" for n in range(2500)]
    with pytest.raises(InvalidJobError, match="key is ''"):
        client.set_many([SetRequest("x", delay=1, handler="h"), SetRequest("", delay=1, handler="h")])
    assert client.get("x") is None
    assert client.set_many([]) == []
    for wrong in ([SetRequest("k", delay=HOUR, handler="h"), {"key": "k"}], SetRequest("k", delay=HOUR, handler="h")):
        with pytest.raises(InvalidJobError, match="SetRequest"):
            client.set_many(wrong)
    assert client.get("k") is None


def test_many_of_the_other_verbs(client):
    """
    Many jobs are moved or cancelled in one call.

    The answers are in the order of the keys, even with unknown keys.
    """
    client.set_many([SetRequest(f"k{n}", delay=HOUR, handler="h") for n in range(5)])
    keys = ["k3", "none", "k1"]
    assert [each.outcome for each in client.move_many(keys, delay=60)] == ["moved", "not_found", "moved"]
    assert client.get("k1").due_at < client.get("k0").due_at
    assert [each.outcome for each in client.cancel_many(keys)] == ["cancelled", "not_found", "cancelled"]
    assert [each.outcome for each in client.replay_many(["k0"])] == ["not_found"]
    assert client.cancel_many([]) == []
    with pytest.raises(InvalidJobError):
        client.cancel_many(["k0", ""])
    with pytest.raises(InvalidJobError, match=r"pass a list, such as \['k0'\]"):
        client.cancel_many("k0")
    assert [job.key for job in client.list().jobs] == ["k0", "k2", "k4"]


def test_drain(client):
    """
    A drain cancels and returns only pending jobs, and only those whose keys begin with the given prefix.
    """
    client.set_many([SetRequest(f"a{n:04}", delay=HOUR, handler="h", payload=n) for n in range(2100)])
    client.set("b", delay=HOUR, handler="h")
    drained = client.drain("a")
    assert [job.key for job in drained] == [f"a{n:04}" for n in range(2100)]
    assert client.drain("a") == []
    assert [job.key for job in client.drain()] == ["b"]
    assert client.stats()["pending"] == 0


def test_listing(client):
    """
    Jobs are listed page by page in the order of their keys, and can be selected by each of the filters.
    """
    client.set_many([SetRequest(f"a{n:02}", delay=HOUR + n * 60, handler="h") for n in range(25)])
    client.set("b", delay=HOUR, handler="other")
    keys, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = client.list("a", limit=10, cursor=cursor)
        keys += [job.key for job in page.jobs]
        cursor, pages = page.cursor, pages + 1
    assert keys == [f"a{n:02}" for n in range(25)]
    assert [job.key for job in client.list(handler="other").jobs] == ["b"]
    assert client.list(state="dead").jobs == ()
    start = client.get("a10").due_at / 1000
    found = client.list(due_from=start, due_until=start + 120)
    assert [job.key for job in found.jobs] == ["a10", "a11"]


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({}, InvalidJobError, "pass delay= in seconds or at= as a time"),
        ({"delay": 1, "at": 2e9}, InvalidJobError, "not both"),
        ({"delay": math.nan}, InvalidDelayError, "delay is nan"),
        ({"delay": math.inf}, InvalidJobError, "at most 100 years"),
        ({"delay": 1e300}, InvalidJobError, "at most 100 years"),
        ({"delay": "soon"}, InvalidJobError, "delay is 'soon': write numbers with units"),
        ({"delay": b"5s"}, TypeError, "delay is b'5s': pass seconds, a timedelta or text"),
        ({"delay": "40000d"}, InvalidJobError, "at most 100 years"),
        ({"every": "1M"}, InvalidJobError, "every is '1M': write numbers with units"),
        ({"every": "0.5ms"}, RecurrenceError, "every is '0.5ms': the least interval is 0.001 s"),
        ({"cron": "@every"}, RecurrenceError, "the aliases are @yearly"),
        ({"cron": "@every hour"}, InvalidJobError, "every is 'hour': write numbers with units"),
        ({"cron": "@every 1h", "every": 5}, RecurrenceError, "not both"),
        ({"at": "2030-01-01"}, InvalidJobError, "at is '2030-01-01': it has no offset"),
        ({"at": "tomorrow"}, InvalidJobError, "at is 'tomorrow': write ISO 8601 with an offset"),
        ({"at": timedelta(hours=1)}, TypeError, "at is datetime.timedelta"),
        ({"delay": 1, "handler": None}, InvalidJobError, "name the handler"),
        ({"delay": 1, "target": "fax"}, InvalidJobError, "the targets here are handler, log, webhook"),
        ({"delay": 1, "target": "webhook", "handler": "no url"}, InvalidJobError, "a webhook needs a URL"),
        ({"delay": 1, "payload": {1, 2}}, InvalidJobError, "payload is"),
        ({"delay": 1, "mode": "first"}, InvalidJobError, "replace, keep, earliest"),
        ({"delay": 1, "mode": "keep", "max_wait": 5}, InvalidJobError, "max_wait is 5"),
        ({"delay": 1, "expires": 0}, InvalidJobError, "expires is 0: pass seconds, more than 0"),
        ({"delay": 1, "retry": RetryPolicy(attempts=0)}, InvalidJobError, "retry.attempts is 0"),
        ({"delay": 1, "if_generation": -1}, InvalidJobError, "if_generation is -1"),
        ({"delay": 1, "trace": "abc"}, InvalidJobError, "trace is 'abc'"),
        ({"cron": "0 0 31 2 *"}, RecurrenceError, "never fires"),
        ({"cron": "61 * * * *"}, RecurrenceError, "minute field '61'"),
        ({"cron": 5}, RecurrenceError, "cron is 5"),
        ({"cron": "0 9 * * *", "tz": "Mars"}, RecurrenceError, "IANA zone"),
        ({"cron": "0 9 * * *", "every": 5}, RecurrenceError, "not both"),
        ({"every": 0}, InvalidJobError, "every is 0"),
        ({"every": 60, "tz": "Mars/Base"}, RecurrenceError, "tz is 'Mars/Base': pass an IANA zone"),
        ({"cron": "@every 60s", "tz": None}, RecurrenceError, "tz is None: pass an IANA zone"),
        ({"every": 60, "misfire": "panic"}, InvalidJobError, "once, all, skip"),
        ({"every": 60, "jitter": math.nan}, InvalidDelayError, "jitter is nan"),
        ({"every": 60, "jitter": -1}, RecurrenceError, "jitter is -1: pass seconds, 0 or more"),
        ({"every": 60, "max_runs": 0}, InvalidJobError, "max_runs is 0: pass an integer in 1.."),
        ({"every": 60, "max_runs": True}, InvalidJobError, "max_runs is True"),
        ({"every": 60, "max_runs": 1 << 40}, InvalidJobError, "max_runs is 1099511627776"),
        ({"every": 60, "until": 1}, RecurrenceError, ": no run is due until then"),
        ({"cron": "@daily", "until": "soon"}, InvalidJobError, "until is 'soon'"),
        ({"every": 60, "until": math.nan}, InvalidDelayError, "until is nan"),
        ({"every": 60, "misfire_grace": 5}, InvalidJobError, "it bounds misfire='skip' only, not 'once'"),
        ({"every": 60, "misfire": "skip", "misfire_grace": "0.9s"}, InvalidJobError, "misfire_grace is '0.9s'"),
        ({"delay": 1, "max_runs": 2}, InvalidJobError, "max_runs is 2: it is for recurring jobs"),
        (
            {"delay": 1, "exclude": ["2040-01-01"]},
            InvalidJobError,
            "exclude is ['2040-01-01']: it is for recurring jobs",
        ),
        ({"every": 60, "exclude": "2040-01-01"}, RecurrenceError, "exclude is '2040-01-01': pass a list of days"),
        ({"every": 60, "exclude": 5}, RecurrenceError, "exclude is 5: pass a list of days"),
        ({"every": 60, "exclude": ["* * * * *"]}, RecurrenceError, "exclude is ['* * * * *']: no run is found"),
        ({"every": 60, "exclude": ["2040-01-01"], "tz": "Mars"}, RecurrenceError, "tz is 'Mars': pass an IANA zone"),
        ({"delay": 1, "until": "2040-01-01T00:00Z"}, InvalidJobError, "until is '2040-01-01T00:00Z': it is for"),
        ({"delay": 1, "misfire_grace": 5}, InvalidJobError, "misfire_grace is 5: it is for recurring jobs"),
        ({"delay": 1, "misfire": "all"}, InvalidJobError, "misfire is 'all': it is for recurring jobs"),
        ({"delay": 1, "overlap": "once"}, InvalidJobError, "overlap is 'once': it is for recurring jobs"),
        ({"delay": 1, "jitter": "5s"}, InvalidJobError, "jitter is '5s': it is for recurring jobs"),
        ({"delay": 1, "jitter": math.nan}, InvalidDelayError, "jitter is nan"),
    ],
)
def test_bad_values(refusing, fields, error, said):
    """
    If a value is invalid, the error names it.

    Nothing is stored.
    """
    with pytest.raises(error) as caught:
        refusing.set("k", **{"handler": "h", **fields})
    assert said in str(caught.value)
    assert refusing.get("k") is None


@pytest.mark.parametrize(("limit", "state"), [(0, None), (1001, None), (True, "gone")])
def test_bad_listing(client, limit, state):
    """
    `list` is refused if its limit is zero or too large, or if the state is unknown.
    """
    with pytest.raises(InvalidJobError):
        client.list(limit=limit, state=state)


def test_stats_of_a_client(client):
    """
    `stats` of a client has the store's counts of jobs and the client's own counts, as JSON values.

    All figures of an engine are zero or None, because a client fires no jobs.
    """
    client.set("k", delay=HOUR, handler="h")
    stats = json.loads(json.dumps(client.stats(), allow_nan=False))
    assert {name: stats[name] for name in ("pending", "running", "dead", "commits")} == {
        "pending": 1,
        "running": 0,
        "dead": 0,
        "commits": 1,
    }
    assert {
        stats[name]
        for name in ("staged", "in_memory", "waiting", "in_flight", "fired", "succeeded", "failed", "refused")
    } == {0}
    assert (stats["owner"], stats["epoch"], stats["shards"], stats["lateness"]["count"]) == (None, None, [], 0)


def test_unknown_fields(client):
    """
    A misspelt argument raises a TypeError that names it.
    """
    with pytest.raises(TypeError, match="delya"):
        client.set("k", delya=5, handler="h")


def test_closed(client):
    """
    After the stop, every verb raises an error that says that the scheduler is closed.
    """
    client.set("k", delay=HOUR, handler="h")
    assert client.stop() == []
    for call in (
        lambda: client.set("k", delay=1, handler="h"),
        lambda: client.move("k", delay=1),
        lambda: client.cancel("k"),
        lambda: client.get("k"),
        client.list,
        client.stats,
        client.start,
    ):
        with pytest.raises(ClosedError, match=r"the scheduler is closed.*: make another one"):
            call()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("oracle:/x", "no store is named by 'oracle:/x'"),
        ("oracle://scott:tiger@host/db", r"oracle://scott:\*\*\*@host/db"),
        ("jobs.db", r"begin with memory:// or .*sqlite://.*did you mean 'sqlite:///jobs\.db'"),
        ("/var/lib/jobs.sqlite3", "did you mean 'sqlite:////var/lib/jobs.sqlite3'"),
        ("postgresql+psycopg://scott:tiger@host/db", r"did you mean 'postgresql://scott:\*\*\*@host/db'"),
        ("sqlite+aiosqlite:///jobs.db", "did you mean 'sqlite:///jobs.db'"),
        ("postgrsql://host/db", "did you mean 'postgresql://host/db'"),
        ("redis+sentinal://host/0?master=jobs", "did you mean 'redis\\+sentinel://host/0"),
        ("sqlite://jobs.db", "write sqlite:///relative.db or sqlite:////absolute.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:///x.db?synchronous=never", "write full or normal"),
        ("sqlite:///x.db?mode=ro", "has the option 'mode'"),
        ("memory://x", "write memory://"),
    ],
)
def test_bad_urls(make, url, said):
    """
    For a URL that names no store, the error lists the known schemes.

    The error hides the password of the URL.
    """
    with pytest.raises(StoreError, match=said):
        make(url)
