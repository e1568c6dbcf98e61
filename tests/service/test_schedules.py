"""
Recurring jobs, numbers of due jobs, shards, and MessagePack.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta

import msgspec
import pytest
from years import YEAR, year_like

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service import ServiceOptions, schedules
from tickwheel.service.http import Request

FAR = {"do": "set", "delay": 3600, "target": "log"}
PACKED = "application/msgpack"
DEEP = eval("[" * 150 + "]" * 150)  # noqa: S307  brackets


def times(document):
    """
    Return the times of the runs in *document*.
    """
    return [datetime.fromisoformat(run) for run in document["runs"]]


def test_schedules(server):
    """
    The list of schedules has exactly the recurring jobs, with their next runs, page by page.

    It can be restricted to keys with a prefix.
    """
    for number in range(5):
        server.job("PUT", f"s/{number}", {"every": 60 + number, "target": "log"})
        server.job("PUT", f"s/{number}/once", {"delay": 3600, "target": "log"})
    found, cursor, pages = [], "", 0
    while cursor is not None:
        page = server.ask("GET", f"/v1/schedules?prefix=s/&limit=2&count=3{cursor and '&cursor=' + cursor}").json
        found, cursor, pages = found + page["schedules"], page["cursor"], pages + 1
    assert [schedule["key"] for schedule in found] == [f"s/{number}" for number in range(5)]
    assert pages >= 3
    for number, schedule in enumerate(found):
        first, second, third = times(schedule)
        assert second - first == third - second == timedelta(seconds=60 + number)
        assert schedule["rule"]["every_ms"] == 60_000 + 1000 * number
    one = server.ask("GET", "/v1/schedules/s%2F1?count=2").json
    assert one == found[1] | {"runs": found[1]["runs"][:2]}
    missing = server.ask("GET", "/v1/schedules/s%2F1%2Fonce")
    assert (missing.status, missing.json["type"]) == (404, "/problems/job_not_found")
    assert "fires once" in missing.json["detail"]
    server.job("PUT", "s/century", {"every": 36_525 * 86_400, "target": "log"})
    assert 70 < len(server.ask("GET", "/v1/schedules/s%2Fcentury?count=1000").json["runs"]) < 90
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "s/"})


def test_a_page_has_a_limited_number_of_runs(server):
    """
    If many runs are requested for each job, a page contains fewer jobs, and its cursor leads to the others.
    """
    for number in range(12):
        server.job("PUT", f"m/{number:02}", {"every": 60, "target": "log"})
    cursor, pages = "", []
    while cursor is not None:
        page = server.ask("GET", f"/v1/schedules?prefix=m/&count=1000{cursor and '&cursor=' + cursor}").json
        assert {len(schedule["runs"]) for schedule in page["schedules"]} == {1000}
        pages.append([schedule["key"] for schedule in page["schedules"]])
        cursor = page["cursor"]
    assert [len(page) for page in pages] == [10, 2]
    assert pages[0] + pages[1] == [f"m/{number:02}" for number in range(12)]
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "m/"})


def test_runs_that_are_not_found(server):
    """
    If exclusions remove nearly all runs of a rule, the search for runs stops at a limit.
    """
    exclude = ["*/2 * * 2-3 1 ?", "1-59/2 * * 2-3 1 ?"]
    rule = {"cron": "* * * * * *", "at": f"{YEAR}-01-01T23:59:58Z", "exclude": exclude, "target": "log"}
    assert server.job("PUT", "far", rule).status == 201
    runs = server.ask("GET", "/v1/schedules/far?count=9").json["runs"]
    assert runs == [f"{YEAR}-01-01T23:59:58Z", f"{YEAR}-01-01T23:59:59Z"]
    query = f"cron=*+*+*+*+*+*&at={YEAR}-01-01T23:59:58Z&exclude={';'.join(exclude).replace(' ', '+')}"
    assert server.ask("GET", f"/v1/schedules:next?{query}&count=2").json["runs"] == runs
    answer = server.ask("GET", f"/v1/schedules:next?{query}&count=3")
    assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")
    assert "no run is found in 50 years, or too many stretches" in answer.json["detail"]
    server.job("DELETE", "far")


@pytest.mark.parametrize("path", ["/v1/schedules", "/v1/schedules/found", "/v1/schedules:next"])
def test_runs_are_computed_outside_the_loop(monkeypatch, path):
    """
    Runs are computed in a different thread from the one that serves requests.
    """
    threads = []

    def seen(*_arguments):
        threads.append(threading.get_ident())
        return []

    monkeypatch.setattr(schedules, "runs_of", seen)
    monkeypatch.setattr(schedules, "runs_found", seen)

    async def ask():
        async with AsyncScheduler("memory://") as scheduler:
            await scheduler.set("found", every=3600, target="log")
            room = schedules.Schedules(scheduler, ServiceOptions(), None)
            query = b"every=60" if path.endswith(":next") else b""
            scope = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": query, "headers": []}
            run = {"/v1/schedules": room.list, "/v1/schedules:next": room.next}.get(path, room.get)
            return await run(Request(scope, None))

    asyncio.run(ask())
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        (
            "cron=0+9+*+*+1-5&tz=Europe/Berlin&at=2030-03-29T00:00:00Z&count=2",
            ["2030-03-29T08:00:00Z", "2030-04-01T07:00:00Z"],
        ),
        ("every=90s&at=2030-01-01T00:00:00Z&count=2", ["2030-01-01T00:00:00Z", "2030-01-01T00:01:30Z"]),
        ("cron=@every+PT90S&at=2030-01-01T00:00:00Z&count=2", ["2030-01-01T00:00:00Z", "2030-01-01T00:01:30Z"]),
        ("cron=0+0+15W+*+*&at=2030-06-01T00:00:00Z&count=1", ["2030-06-14T00:00:00Z"]),
        (
            "cron=0+9+*+*+*&tz=Europe/Berlin&at=2030-12-20T00:00:00Z&count=3&exclude=2030-12-24/2030-12-26;*+*+*+*+SAT,SUN",
            ["2030-12-20T08:00:00Z", "2030-12-23T08:00:00Z", "2030-12-27T08:00:00Z"],
        ),
        ("every=1d&at=2030-01-01T00:00:00Z&exclude=2030-01-01", ["2030-01-02T00:00:00Z"]),
        ("every=60&at=2030-01-01T00:00:00Z&count=9&max_runs=2", ["2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z"]),
        ("every=60&at=2030-01-01T00:00:00Z&count=9&until=2030-01-01T00:00:00Z", ["2030-01-01T00:00:00Z"]),
        ("every=90&at=2030-01-01T00:00:00Z&count=3", [f"2030-01-01T00:0{m}Z" for m in ("0:00", "1:30", "3:00")]),
        ("cron=0+0+1+1+*&at=2030-06-01T00:00:00Z", ["2031-01-01T00:00:00Z"]),
    ],
)
def test_when_a_rule_would_fire(server, query, runs):
    """
    The next runs of a rule can be computed without storing a job.
    """
    year = year_like(2030)
    answer = server.ask("GET", f"/v1/schedules:next?{query.replace('2030', str(year))}")
    expected = [run.replace("2031", str(year + 1)).replace("2030", str(year)) for run in runs]
    assert (answer.status, answer.json["runs"]) == (200, expected)


@pytest.mark.parametrize(
    "query",
    [
        *("", "cron=x", "every=0", "every=nan", "every=x", "every=1&cron=*", "every=60&count=0", "every=60&jitter=-1"),
        *("cron=@every+x", "cron=@every+0s", "every=60&cron=@every+60s", "every=1M", "every=60&jitter=-1s"),
        *("every=60&max_runs=0", "every=60&max_runs=x", "every=60&until=1", "every=60&until=x"),
        *("every=60&exclude=*+*+*+*+*", "every=60&exclude=x", "every=60&exclude=2030-01-01;", "every=60&exclude="),
    ],
)
def test_invalid_rules(server, query):
    """
    If a rule cannot be read, or is missing, the answer is a 422.
    """
    answer = server.ask("GET", f"/v1/schedules:next?{query}")
    assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")


def test_the_least_interval(server, start):
    """
    An interval that would keep the service busy all the time is refused, even in a batch.

    An option of the service allows shorter intervals.
    """
    answer = server.job("PUT", "busy", {"every": 0.001, "target": "log"})
    assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")
    assert answer.json["detail"].startswith("every is 0.001: give at least 1 s")
    for fields in ({"every": "PT0.5S"}, {"cron": "@every 500ms"}):
        answer = server.job("PUT", "busy", {**fields, "target": "log"})
        assert (answer.status, answer.json["remedy"].split(" s,")[0]) == (422, "give at least 1")
    items = [{"do": "set", "key": "busy", "every": 0.5, "target": "log"}]
    (result,) = server.ask("POST", "/v1/jobs:batch", {"items": items}).json["results"]
    assert (result["status"], result["outcome"]) == (422, "refused")
    assert server.job("GET", "busy").status == 404
    other = start("--every-min", "500ms")
    assert other.job("PUT", "busy", {"every": 0.5, "target": "log"}).status == 201


def test_the_least_interval_of_a_line(start):
    """
    If a cron line would fire more often than the minimum interval allows, a request to set or change a job is refused.
    """
    server = start("--every-min", "30s")
    for line, gap_s in (("* * * * * *", 1), ("TZ=Europe/Berlin 0,20 0 9 * * *", 20)):
        answer = server.job("PUT", "line", {"cron": line, "target": "log"})
        assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")
        assert answer.json["detail"].startswith(f"cron is {line!r}, with {gap_s} s between two runs: give one with")
    for line in ("0,30 * * * * *", "0 9 * * *"):
        assert server.job("PUT", "line", {"cron": line, "target": "log"}).status in {200, 201}
    assert server.job("POST", "line", {"cron": "*/10 * * * * *"}, action=":change").status == 422
    assert server.job("PUT", "line", {"cron": "nine", "target": "log"}).json["detail"].startswith("cron is 'nine'")


def test_a_list_of_recurring_jobs(server):
    """
    A list of jobs can be restricted to recurring jobs.

    The only accepted values of this filter are true and false.
    """
    server.job("PUT", "l/back", {"every": 60, "target": "log"})
    server.job("PUT", "l/once", {"delay": 60, "target": "log"})
    for value, keys in (("true", ["l/back"]), ("false", ["l/back", "l/once"])):
        page = server.ask("GET", f"/v1/jobs?prefix=l/&recurring={value}").json
        assert [job["key"] for job in page["jobs"]] == keys
    answer = server.ask("GET", "/v1/jobs?recurring=yes")
    assert (answer.status, "give true or false" in str(answer.json)) == (422, True)
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "l/"})


def test_counts_and_shards(server):
    """
    The service returns the number of jobs that are due in each step of a period, and the owner of each shard.
    """
    for number in range(3):
        server.job("PUT", f"c{number}", {"at": f"{YEAR}-01-01T00:0{number}:30Z", "target": "log"})
    answer = server.ask("GET", f"/v1/due?since={YEAR}-01-01T00:00:00Z&step=60&steps=4")
    assert answer.json == {"counts": [1, 1, 1, 0]}
    assert server.ask("GET", "/v1/due?step=0").status == 422
    assert server.ask("GET", "/v1/due?since=1e300").json["detail"].startswith("since is 1e+300: ")
    shards = server.ask("GET", "/v1/shards").json
    assert shards["shards"] == [{"shard": 0, "owner": shards["owner"], "epoch": shards["epoch"], "until": None}]
    assert shards["epoch"] >= 1
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "c"})


def packed(server, document, accept=PACKED, kind=PACKED):
    """
    Send *document* as a batch in MessagePack.
    """
    data = msgspec.msgpack.encode(document) if not isinstance(document, bytes) else document
    return server.ask("POST", "/v1/jobs:batch", raw=data, headers={"content-type": kind, "accept": accept})


def test_ten_thousand_in_messagepack(server):
    """
    A batch and its answer may be MessagePack, with the same results as in JSON.
    """
    items = [FAR | {"key": f"p/{n:05}", "payload": {"n": n, "text": "é"}} for n in range(10_000)]
    answer = packed(server, {"items": items})
    assert (answer.status, answer.headers["content-type"]) == (200, PACKED)
    results = msgspec.msgpack.decode(answer.body)["results"]
    assert [(each["key"], each["outcome"]) for each in results] == [(item["key"], "created") for item in items]
    assert server.job("GET", "p/00007").json["payload"] == {"n": 7, "text": "é"}
    job = server.ask("GET", "/v1/jobs/p%2F00007", headers={"accept": "application/vnd.msgpack"})
    assert msgspec.msgpack.decode(job.body) == server.job("GET", "p/00007").json
    assert job.headers["etag"] == server.job("GET", "p/00007").headers["etag"]
    assert packed(server, {"items": []}, accept="application/json").json == {"results": []}
    assert server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "p/"}).json["changed"] == 10_000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xc1", 400),
        (b"\x81\xa5items\x91", 400),
        (b"\x91" * 100_000 + b"\xc0", 422),
        ({"items": [FAR | {"key": "deep", "payload": eval("[" * 90 + "]" * 90)}]}, 200),  # noqa: S307  brackets
        ({"items": 5}, 422),
        ({"items": [FAR | {"key": 5}]}, 422),
        ({"items": [], "more": 1}, 422),
        ({1: 2}, 422),
    ],
)
def test_invalid_messagepack(server, body, status):
    """
    A MessagePack body that cannot be read or used is refused like the same body in JSON.
    """
    answer = packed(server, body)
    assert answer.status == status, answer.body
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("payload", [float("nan"), b"bytes", msgspec.msgpack.Ext(5, b"x"), {"a": {b"b": 1}}, DEEP])
def test_payloads_that_json_cannot_carry(server, payload):
    """
    A MessagePack value that JSON cannot represent, or that is nested too deeply, is refused.
    """
    answer = packed(server, {"items": [FAR | {"key": "odd", "payload": payload}]}, accept="*/*")
    (result,) = answer.json["results"]
    assert (result["status"], result["problem"]["type"]) == (422, "/problems/invalid_value")


def test_batches_that_refuse_all(server):
    """
    With `refuse_all`, one invalid item is enough to refuse the whole batch. With `with_jobs`, each result has its job.
    """
    items = [FAR | {"key": "all/1"}, FAR | {"key": ""}]
    answer = server.ask("POST", "/v1/jobs:batch", {"items": items, "refuse_all": True})
    assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")
    assert server.job("GET", "all/1").status == 404
    mixed = server.ask("POST", "/v1/jobs:batch", {"items": [{"do": "cancel", "key": "a"}], "refuse_all": True})
    assert mixed.status == 422
    answer = server.ask("POST", "/v1/jobs:batch", {"items": items[:1], "refuse_all": True, "with_jobs": True})
    assert answer.json["results"][0]["job"] == server.job("GET", "all/1").json
    (replayed,) = server.ask("POST", "/v1/jobs:batch", {"items": [{"do": "replay", "key": "all/1"}]}).json["results"]
    assert replayed["status"] == 404
    server.job("DELETE", "all/1")


def test_skip(server):
    """
    Each request to skip cancels one more run of a recurring job.

    For a one-time job, the request is refused.
    """
    server.job("PUT", "skipped", {"every": 3600, "target": "log"})
    runs = server.ask("GET", "/v1/schedules/skipped?count=3").json["runs"]
    answer = server.job("POST", "skipped", None, action=":skip")
    assert (answer.status, answer.json["outcome"], answer.json["job"]["due_at"]) == (200, "moved", runs[1])
    assert server.job("POST", "skipped", None, {"if-match": '"1"'}, action=":skip").status == 412
    assert server.job("POST", "skipped", None, action=":skip").json["job"]["due_at"] == runs[2]
    server.job("PUT", "once", {"delay": 3600, "target": "log"})
    assert server.job("POST", "once", None, action=":skip").json["type"] == "/problems/invalid_value"
    assert server.job("POST", "nobody", None, action=":skip").status == 404
    for key in ("skipped", "once"):
        server.job("DELETE", key)


def test_backfill(server):
    """
    A backfill sets a separate job for each run in a past range.

    An invalid range or a one-time job is refused.
    """
    server.job("PUT", "filled", {"every": 60, "target": "log", "at": f"{YEAR}-01-01T00:00:00Z"})
    address, body = (
        "/v1/schedules/filled:backfill",
        {"since": f"{YEAR - 1}-12-31T23:50:00Z", "until": f"{YEAR}-01-01T00:00:00Z"},
    )
    assert server.ask("POST", address, body | {"dry_run": True}).json == {"runs": 10, "created": 0, "next_at": None}
    first = server.ask("POST", address, body | {"limit": 6, "rate": 0.001}).json
    assert first == {"runs": 6, "created": 6, "next_at": f"{YEAR - 1}-12-31T23:56:00Z"}
    assert server.job("GET", f"filled@{YEAR - 1}-12-31T23:55:00.000Z").json["target"] == "log"
    late = server.ask("POST", address, body | {"until": f"{YEAR}-01-02T00:00:00Z"})
    assert (late.status, late.json["type"]) == (422, "/problems/invalid_value")
    assert server.ask("POST", address, body | {"rate": 0}).status == 422
    server.job("PUT", "once", {"delay": 3600, "target": "log"})
    for key in ("once", "nobody"):
        assert server.ask("POST", f"/v1/schedules/{key}:backfill", body).json["type"] == "/problems/job_not_found"
    for job in server.ask("GET", "/v1/jobs?prefix=filled").json["jobs"]:
        server.job("DELETE", job["key"])
    server.job("DELETE", "once")
