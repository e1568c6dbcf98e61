"""
Verbs that change a series, or many jobs at once, on server stores.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tickwheel.observe.events import JobDied, JobSucceeded
from tickwheel.scheduler import DeadLetter, Outcome, Recurrence, SetRequest

HOUR_MS = 3_600_000


@pytest.fixture(params=["sqlite", "postgres", "redis", "partitions"])
def any_url(request, tmp_path):
    """
    Return the URL of an empty store that several processes can share, for each kind of store.
    """
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    if request.param == "postgres":
        return request.getfixturevalue("postgres").url(request.getfixturevalue("database"))
    partitions = 3 if request.param == "partitions" else 1
    return request.getfixturevalue("redis_server").empty_url(f"&partitions={partitions}")


def test_a_series(server_url, make):
    """
    After a series was skipped, run now, backfilled, paused and changed, it continues by its rule.
    """
    client = make(server_url)
    rule = {"cron": "0 * * * *", "exclude": ["* 3 * * *"], "max_runs": 9, "overlap": "once", "handler": "h"}
    first = client.set("k", payload={"to": "a"}, **rule).job
    skipped = client.skip("k").job
    assert skipped.due_at - first.due_at in {HOUR_MS, 2 * HOUR_MS}  # the next run, or the one after the excluded hour
    assert skipped.recurrence == first.recurrence
    assert client.skip("k", if_generation=first.generation).outcome is Outcome.WRONG_GENERATION

    day = {"since": (first.due_at - 24 * HOUR_MS) / 1000, "until": first.due_at / 1000, "rate": 0.001}
    assert client.backfill("k", **day, dry_run=True).runs == 23
    part = client.backfill("k", **day, limit=20)
    assert (part.runs, part.created) == (20, 20)
    rest = client.backfill("k", part.next_at, day["until"])
    assert (rest.created, rest.next_at) == (3, None)
    assert client.backfill("k", **day).created == 0
    runs = client.list("k@", limit=100).jobs
    assert {(job.payload, job.recurrence) for job in runs} == {(b'{"to":"a"}', None)}

    wanted = client.run_now("k").job
    assert wanted.due_at < skipped.due_at
    assert client.pause("k", note="moving", by="ada").outcome is Outcome.PAUSED
    changed = client.set("k", keep_payload=True, **rule | {"cron": "30 * * * *"}).job
    assert (changed.payload, changed.pause.note, changed.pause.by) == (b'{"to":"a"}', "moving", "ada")
    assert changed.due_at == wanted.due_at, "a run that is owed keeps its instant"
    client.resume("k")
    acts = ["created", "moved", "moved", "paused", "changed", "resumed"]
    assert [record.outcome for record in reversed(client.history("k"))] == acts
    assert client.cancel("k").outcome is Outcome.CANCELLED


def test_a_run_now_after_a_skip(any_url, make, until):
    """
    If a recurring job is run now, its next due time stays, even if an earlier skip or move has changed it.

    This holds whether the job is run by its key or with a filter.
    """
    node = make(any_url)
    node.handler("h")(lambda _: None)
    rule = {"cron": "0 0 1 * *", "handler": "h"}
    for key in ("skip", "bulk skip"):
        node.set(key, **rule)
        node.skip(key)
    for key in ("move", "bulk move"):
        node.set(key, **rule)
        node.move(key, delay=40 * 24 * 3600)
    before = {job.key: job for job in node.list().jobs}
    node.start()
    assert node.bulk("run", "bulk").changed == 2
    for key in ("skip", "move"):
        assert node.run_now(key).outcome is Outcome.MOVED
    until(lambda: node.stats()["succeeded"] == 4)
    after = {job.key: job for job in node.list().jobs}
    assert {key: job.due_at for key, job in after.items()} == {key: job.due_at for key, job in before.items()}
    rule = Recurrence.from_text(before["skip"].recurrence)
    found = {Recurrence.from_text(job.recurrence) for job in after.values()}
    assert {replace(each, succeeded_at=None) for each in found} == {replace(rule, runs=1)}


def test_a_change_of_some_fields_keeps_the_others(any_url, make):
    """
    A change of some fields keeps all others, such as the due time, the pause and the number of remaining runs.
    """
    client = make(any_url)
    before = client.set("k", every=3600, payload=1, max_runs=9, jitter="10m", handler="h").job
    client.pause("k", note="moving", by="ada")
    after = client.change("k", payload=2, overlap="once").job
    rule = json.loads(before.recurrence) | {"overlap": "once"}
    assert (after.payload, json.loads(after.recurrence), after.due_at) == (b"2", rule, before.due_at)
    assert (after.pause.note, after.attempt) == ("moving", 0)
    assert client.change("k", payload=3, if_generation=before.generation).outcome is Outcome.WRONG_GENERATION
    often = client.change("k", cron="30 * * * *", jitter=0, if_generation=after.generation).job
    assert (often.due_at // 60_000) % 60 == 30
    assert json.loads(often.recurrence)["max_runs"] == 9
    acts = ["created", "paused", "changed", "changed"]
    assert [record.outcome for record in reversed(client.history("k"))] == acts


def test_verbs_with_a_filter(server_url, make):
    """
    Verbs with a filter act on the matching jobs: count, move, spread, pause, resume, run and cancel.

    A move can be done in several parts.
    """
    client = make(server_url)
    names = [f"job {n:02}" for n in range(24)]
    client.set_many([SetRequest(key, delay=7200 + n, handler="ab"[n % 2]) for n, key in enumerate(names)])
    before = {job.key: job.due_at for job in client.list("job").jobs}
    found = client.bulk("move", contains="ob", handler="a", shift="30m", dry_run=True)
    assert (found.matched, found.changed) == (12, 0)
    part = client.bulk("move", contains="ob", handler="a", shift="30m", limit=5, cursor=found.start)
    rest = client.bulk("move", contains="ob", handler="a", shift="30m", cursor=part.cursor)
    assert (part.changed, rest.changed, rest.cursor) == (5, 7, None)
    assert client.bulk("move", contains="ob", handler="a", shift="30m", cursor=found.start).matched == 0
    after = {job.key: job.due_at for job in client.list("job").jobs}
    assert {after[key] - before[key] for key in names[::2]} == {HOUR_MS // 2}
    assert {after[key] - before[key] for key in names[1::2]} == {0}

    since = before[names[-1]] + 10 * HOUR_MS
    assert client.bulk("spread", "job", over="1h", since=since / 1000).changed == 24
    dues = [job.due_at for job in client.list("job", due_from=since / 1000).jobs]
    assert len(set(dues)) > 12
    assert all(since <= due_at < since + HOUR_MS for due_at in dues)
    assert client.bulk("pause", handler="b", note="why", by="ada").changed == 12
    assert [job.key for job in client.list(paused=True).jobs] == names[1::2]
    assert client.bulk("resume", "job", handler="b").changed == 12
    assert client.bulk("run", due_from=since / 1000).changed == 24
    assert client.list(due_from=since / 1000).jobs == ()
    assert client.bulk("cancel", "job").changed == 24
    assert client.stats()["pending"] == 0


def test_stop_with_a_filter(any_url, make, until):
    """
    A filter counts and stops the matching jobs that run on another node.

    Other running jobs continue.
    """
    node, client = make(any_url), make(any_url)
    ended = []

    @node.handler("h")
    async def handler(payload):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(payload)

    node.start()
    node.set_many([SetRequest(f"k{n:02}", delay=0, handler="h", payload=n) for n in range(20)])
    node.set("other", delay=0, handler="h", payload="other")
    node.set("kept", delay=3600, handler="h")
    until(lambda: node.stats()["fired"] == 21)
    dry = client.bulk("cancel", "k", state="running", running=True, dry_run=True)
    assert (dry.matched, dry.changed) == (20, 0)
    part = client.bulk("cancel", "k", state="running", running=True, limit=8, cursor=dry.start)
    assert (part.matched, part.changed, part.refused, part.stopping) == (8, 8, 0, 8)
    rest = client.bulk("cancel", "k", state="running", running=True, cursor=part.cursor)
    assert (rest.changed, rest.stopping, rest.cursor) == (12, 12, None)
    until(lambda: node.stats()["stopped"] == 20)
    until(lambda: [job.key for job in client.list().jobs] == ["kept", "other"])
    assert sorted(ended) == list(range(20))


def test_replay_of_dead_letters_with_one_error(server_url, make, events):
    """
    If dead letters are replayed by their error, dead letters with another error stay unchanged.
    """
    scheduler = make(server_url)
    told = events(scheduler)
    is_mended = False

    @scheduler.handler("h")
    def handler(payload):
        return None if is_mended else DeadLetter(f"no {payload}")

    scheduler.start()
    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler="h", payload="ab"[n % 2]) for n in range(6)])
    told.wait_for(lambda: sum(isinstance(each, JobDied) for each in told.items) == 6)
    is_mended = True
    assert scheduler.bulk("replay", error="no a").changed == 3
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == 3)
    assert [job.key for job in scheduler.list(state="dead").jobs] == ["k1", "k3", "k5"]
