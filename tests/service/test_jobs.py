"""
The verbs over HTTP, with their answers and status codes.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest
from years import YEAR

from tickwheel.scheduler import SetRequest

bodies = pytest.importorskip("tickwheel.service.bodies", reason="the service extra is not installed")

FAR = {"delay": 3600, "target": "log"}


def test_defaults():
    """
    Fields that are missing in a body are not passed on, so that the library's defaults apply.
    """
    body = dict(zip(bodies.SetBody.__struct_fields__, bodies.SetBody.__struct_defaults__, strict=True))
    library = {field.name: field.default for field in dataclasses.fields(SetRequest)}
    assert body == {name: library[name] for name in body}
    assert library.keys() - body.keys() == {"key", "call", "if_generation"}


def test_change(server):
    """
    A change sets only the fields in the body of the request, and unknown fields are refused.
    """
    body = {"every": "1h", "target": "pull", "handler": "a", "payload": {"n": 1}, "max_runs": 9, "until": 4_133_980_800}
    before = server.job("PUT", "changed", body).json["job"]
    tag = {"if-match": f'"{before["generation"]}"'}
    answer = server.job("POST", "changed", {"payload": None, "until": None, "retry": {"attempts": 2}}, tag, ":change")
    assert (answer.status, answer.json["outcome"]) == (200, "changed")
    after = answer.json["job"]
    assert (after["payload"], after["retry"]["attempts"], after["due_at"]) == (None, 2, before["due_at"])
    assert after["recurrence"] == {name: each for name, each in before["recurrence"].items() if name != "until"}
    assert answer.headers["etag"] == f'"{after["generation"]}"'
    assert server.job("POST", "changed", {"payload": 1}, tag, ":change").status == 412
    assert server.job("POST", "nobody there", {"payload": 1}, action=":change").status == 404
    for wrong in ({}, {"every": 0.1}, {"cron": None}, {"delay": 5}, {"target": "handler", "handler": "nobody"}):
        assert server.job("POST", "changed", wrong, action=":change").status == 422, wrong
    assert server.job("POST", "changed", {"handler": "any queue"}, action=":change").status == 200
    answer = server.job("POST", "changed", {"target": "handler"}, action=":change")
    assert (answer.status, answer.json["type"]) == (422, "/problems/unknown_handler")
    server.job("PUT", "changed", {"delay": 3600, "target": "log"})
    assert server.job("POST", "changed", {"cron": "@daily"}, action=":change").status == 422
    server.job("DELETE", "changed")


def test_life_of_a_job(server):
    """
    A job is created, replaced, moved, read and cancelled.

    Each write gives the job a higher generation.
    """
    created = server.job("PUT", "life/of a/job", FAR | {"payload": {"n": 1}})
    assert (created.status, created.json["outcome"]) == (201, "created")
    replaced = server.job("PUT", "life/of a/job", FAR | {"payload": {"n": 2}})
    assert (replaced.status, replaced.json["outcome"]) == (200, "replaced")
    moved = server.job("PATCH", "life/of a/job", {"delay": 7200})
    assert (moved.status, moved.json["outcome"]) == (200, "moved")
    found = server.job("GET", "life/of a/job")
    assert found.json == moved.json["job"]
    assert found.json["payload"] == {"n": 2}
    generations = [answer.json["job"]["generation"] for answer in (created, replaced, moved)]
    assert generations == sorted(set(generations))
    assert found.headers["etag"] == moved.headers["etag"] == f'"{generations[-1]}"'
    cancelled = server.job("DELETE", "life/of a/job")
    assert cancelled.json == {"outcome": "cancelled", "job": found.json}
    assert "etag" not in cancelled.headers
    assert server.job("GET", "life/of a/job").status == 404


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "a/b/c",
        "/",
        "a//b/",
        "ключ",
        "\U0001f600",
        "a?b#c&d=e",
        "100%",
        "a:run",
        "a\nb",
        "..a",
        " ",
        "'; DROP TABLE jobs; --",
        "é" * 256,
    ],
)
def test_keys(server, key):
    """
    Any UTF-8 text without NUL can be a key.

    The key is percent-encoded in the address and returned unchanged.
    """
    assert server.job("PUT", key, FAR).status == 201
    found = server.job("GET", key)
    assert (found.status, found.json["key"]) == (200, key)
    listed = server.ask("GET", "/v1/jobs?limit=1000").json["jobs"]
    assert key in [job["key"] for job in listed]
    assert server.job("DELETE", key).json["outcome"] == "cancelled"


def test_conditions(server):
    """
    A write that requires the current generation is executed, and a write that requires an earlier one is refused.
    """
    old = server.job("PUT", "conditions", FAR).headers["etag"]
    new = server.job("PATCH", "conditions", {"delay": 7200}).headers["etag"]
    for method, body in (("PUT", FAR), ("PATCH", {"delay": 1}), ("DELETE", None)):
        refused = server.job(method, "conditions", body, {"if-match": old})
        assert (refused.status, refused.json["type"]) == (412, "/problems/wrong_generation")
        assert refused.headers["etag"] == new
    assert server.job("PUT", "conditions", FAR, {"if-none-match": "*"}).status == 412
    assert server.job("GET", "conditions").headers["etag"] == new
    assert server.job("DELETE", "conditions", None, {"if-match": new}).status == 200
    assert server.job("PUT", "conditions", FAR, {"if-none-match": "*"}).status == 201
    server.job("DELETE", "conditions")


def test_list_pages(server):
    """
    A list is read in pages, with cursors.

    Together, the pages have every job of the prefix exactly once, in the order of the keys.
    """
    keys = [f"page/{n:03}" for n in range(25)]
    for key in keys:
        assert server.job("PUT", key, FAR).status == 201
    found: list[str] = []
    path = "/v1/jobs?prefix=page/&limit=10"
    answer = server.ask("GET", path)
    while True:
        found += [job["key"] for job in answer.json["jobs"]]
        if answer.json["cursor"] is None:
            break
        answer = server.ask("GET", f"{path}&cursor={answer.json['cursor']}")
    assert found == keys
    for key in keys:
        server.job("DELETE", key)


def test_list_by_time(server):
    """
    A list can be restricted to jobs that are due in a period.

    The beginning of the period is included, and its end is not.
    """
    seconds = int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp())
    server.job("PUT", "time/early", {"at": f"{YEAR}-01-01T00:00:00Z", "target": "log"})
    server.job("PUT", "time/late", {"at": seconds + 3600, "target": "log"})
    path = f"/v1/jobs?prefix=time/&due_from={YEAR}-01-01T01:00:00%2B01:00&due_until={seconds + 1}"
    assert [job["key"] for job in server.ask("GET", path).json["jobs"]] == ["time/early"]
    assert server.job("GET", "time/late").json["due_at"] == f"{YEAR}-01-01T01:00:00Z"
    for key in ("time/early", "time/late"):
        server.job("DELETE", key)


def test_waits_of_a_retry_policy(server):
    """
    The delays of a retry policy may be numbers of seconds or texts.

    If a delay is invalid or too long, the error names it.
    """
    retry = {"kind": "list", "base_s": "1m30s", "max_s": "PT2H", "waits_s": [0.5, "250ms", "1d"]}
    assert server.job("PUT", "waits", {"delay": 3600, "target": "log", "retry": retry}).status == 201
    shown = server.job("GET", "waits").json["retry"]
    assert (shown["base_s"], shown["max_s"], shown["waits_s"]) == (90.0, 7200.0, [0.5, 0.25, 86_400.0])
    for wrong, part in (
        ({"base_s": "soon"}, "retry.base_s is 'soon': write numbers with units such as 90s"),
        ({"waits_s": ["1s", "90"]}, "retry.waits_s is '90': write numbers with units"),
        ({"max_s": "400d"}, "its waits are"),
        ({"max_s": "-1s"}, "its waits are"),
        ({"max_s": -1}, "retry.max_s is -1"),
    ):
        answer = server.job("PUT", "waits", {"delay": 3600, "target": "log", "retry": wrong})
        assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")
        assert part in answer.json["detail"]
    items = [{"do": "set", "key": "waits", "delay": 1, "target": "log", "retry": {"base_s": "soon"}}]
    (result,) = server.ask("POST", "/v1/jobs:batch", {"items": items}).json["results"]
    assert (result["status"], result["outcome"]) == (422, "refused")
    server.job("DELETE", "waits")


def test_run_now_fires(server):
    """
    If a job that is due later is run now, it fires at once.

    The firing is reported with its lateness and outcome.
    """
    server.job("PUT", "run", {"delay": 3600, "target": "log", "payload": "now"})
    assert server.job("POST", "run", action=":run").json["outcome"] == "moved"
    server.line_with('fired "run"')


def test_dead_letter_is_replayed(server):
    """
    A job that has used all its attempts is dead and keeps its error.

    It can be replayed, and it can be removed.
    """
    with server.live() as live:
        server.job("PUT", "dies", {"delay": 0, "handler": "fails", "retry": {"attempts": 1}})
        live.firing("dies", "died")
        job = server.job("GET", "dies").json
        assert job["state"] == "dead"
        assert "<script>alert('no')</script>" in job["error"]
        listed = server.ask("GET", "/v1/jobs?state=dead&prefix=dies").json["jobs"]
        assert [each["key"] for each in listed] == ["dies"]
        replayed = server.job("POST", "dies", action=":replay").json
        assert (replayed["outcome"], replayed["job"]["state"]) == ("replayed", "pending")
        live.firing("dies", "died")
    again = server.job("GET", "dies").json
    assert (again["state"], again["error"]) == ("dead", job["error"])
    assert server.job("DELETE", "dies").json["outcome"] == "cancelled"


def test_firings(server):
    """
    A firing appears in the stream and in the list, with due time, outcome and lateness.

    The lateness is never negative.
    """
    with server.live() as live:
        server.job("PUT", "fires", {"delay": 0.05, "handler": "works"})
        told = live.firing("fires", "succeeded")
    (firing,) = server.ask("GET", "/v1/firings?key=fires").json["firings"]
    assert firing == told
    assert firing["lateness_ms"] >= 0
    assert firing["fired_at"] >= firing["due_at"]
    assert firing["by"] == server.ask("GET", "/v1/stats").json["owner"]


def test_live_begins_with_a_snapshot(server):
    """
    A new stream begins with the figures and the latest firings.
    """
    with server.live() as live:
        server.job("PUT", "before", {"delay": 0, "handler": "works"})
        live.firing("before", "succeeded")
    with server.live() as live:
        name, stats = live.event()
        assert (name, stats["fired"] >= 1) == ("stats", True)
        name, news = live.event()
        assert (name, news["is_snapshot"]) == ("firings", True)
        assert "before" in [firing["key"] for firing in news["firings"]]


def test_recurring(server):
    """
    A job with a cron line is due at the next match of the line, and the answer shows its rule.
    """
    body = {"cron": "0 0 1 1 *", "tz": "Europe/Berlin", "target": "log"}
    job = server.job("PUT", "new year", body).json["job"]
    assert job["due_at"].endswith("-12-31T23:00:00Z")
    assert (job["recurrence"]["cron"], job["recurrence"]["tz"]) == ("0 0 1 1 *", "Europe/Berlin")
    server.job("DELETE", "new year")


def test_figures(server):
    """
    Stats, metrics and health are served.

    The metrics are in the format of Prometheus.
    """
    stats = server.ask("GET", "/v1/stats").json
    assert {"pending", "running", "dead", "fired", "lateness", "now"} <= stats.keys()
    metrics = server.ask("GET", "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert b'tickwheel_jobs{state="pending"}' in metrics.body
    assert b'tickwheel_lateness_seconds_bucket{le="+Inf"}' in metrics.body
    assert server.ask("GET", "/healthz").status == server.ask("GET", "/readyz").status == 200


def test_a_recurring_job_set_again(server):
    """
    If a recurring job is set again with equal fields, by PUT or in a batch, nothing is written.

    The mode "restart" begins a new series of runs.
    """
    body = {"every": 3600, "target": "pull", "handler": "a", "payload": {"n": 1, "m": 2}}
    job = server.job("PUT", "series", body).json["job"]
    for same in ({}, {"every": "1h"}, {"every": "PT1H", "delay": 5}, {"payload": {"m": 2, "n": 1}}):
        answer = server.job("PUT", "series", body | same)
        assert (answer.status, answer.json["outcome"], answer.json["job"]) == (200, "unchanged", job), same
        item = {"do": "set", "key": "series", **body, **same}
        (result,) = server.ask("POST", "/v1/jobs:batch", {"items": [item]}).json["results"]
        assert (result["status"], result["outcome"], result["generation"]) == (200, "unchanged", job["generation"])
    changed = server.job("PUT", "series", body | {"payload": 2})
    assert (changed.json["outcome"], changed.json["job"]["due_at"]) == ("changed", job["due_at"])
    assert server.job("PUT", "series", body | {"mode": "restart"}).json["outcome"] == "restarted"
    ended = server.job("PUT", "ended", body | {"until": "2001-01-01T00:00:00Z"})
    assert (ended.status, "no run is due until then" in ended.json["detail"]) == (422, True)
