"""
Bad input over HTTP.

The answer is a problem document that names the bad value and a remedy, and never a 5xx. No job is lost.
"""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tickwheel.service.problems import PROBLEM_TYPES

FAR = {"delay": 3600, "target": "log"}


def check_problem(answer, status, name, *parts):
    """
    Check that *answer* is a problem document of the type *name*.

    It must have a remedy, and its detail must contain all *parts*.
    """
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert (answer.status, problem["status"], problem["type"]) == (status, status, f"/problems/{name}"), problem
    assert problem["title"]
    assert problem["remedy"]
    for part in parts:
        assert part in problem["detail"]


@pytest.fixture
def kept(server):
    """
    Return the key of a job that the tests must leave unchanged.
    """
    before = server.job("PUT", "kept", FAR).json["job"]
    yield "kept"
    assert server.job("GET", "kept").json == before
    server.job("DELETE", "kept")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"delay": None}, "delay is null: expected `number or string`, got `null`"),
        ({"delay": "3"}, "delay is '3': write numbers with units"),
        ({"delay": "P1M"}, "delay is 'P1M'"),
        ({"delay": "36526d"}, "delay is '36526d'"),
        ({"delay": True}, "delay is true: expected `number or string`, got `true or false`"),
        ({"at": False}, "at is false: expected `number or instant`"),
        ({"delay": 1, "tz": {"a": None}}, """tz is {"a": null}: expected `string`, got `object`"""),
        ({"every": "-1s"}, "every is '-1s'"),
        ({"every": "0.5ms"}, "every is '0.5ms'"),
        ({"cron": "@every x"}, "every is 'x'"),
        ({"every": 60, "max_runs": 0}, "max_runs is 0"),
        ({"every": 60, "until": 1}, "until is 1"),
        ({"every": 60, "misfire_grace": 5}, "misfire_grace is 5"),
        ({"delay": 1, "max_runs": 1}, "max_runs is 1"),
        ({"delay": 1, "exclude": ["2040-01-01"]}, 'exclude is ["2040-01-01"]'),
        ({"every": 60, "exclude": ["soon"]}, "exclude is 'soon'"),
        ({"every": 60, "exclude": "2040-01-01"}, "exclude is"),
        ({"every": 60, "exclude": ["2040-01-01"] * 367}, "exclude is"),
        ({"every": 60, "exclude": ["* 0 * * *"] * 11}, "exclude is '* 0 * * *': at most 10 of them may be cron lines"),
        ({"delay": 1, "expires": "0s"}, "expires is '0s'"),
        ({"every": 60, "jitter": "x"}, "jitter is 'x'"),
        ({"delay": 1e300}, "delay is 1e+300"),
        ({"delay": 3155760001}, "delay is 3155760001"),
        ({}, "delay"),
        ({"delay": 1, "at": 1}, "delay"),
        ({"at": "tomorrow"}, "at is 'tomorrow'"),
        ({"at": "2050-01-01T00:00:00"}, "at is '2050-01-01T00:00:00'"),
        ({"at": 1e300}, "at is"),
        ({"at": "9999-12-31T23:59:59Z"}, "at is"),
        ({"every": 0}, "every is 0"),
        ({"every": -1}, "every is -1"),
        ({"every": 1, "cron": "* * * * *"}, "every"),
        ({"cron": ""}, "cron is ''"),
        ({"cron": "hello"}, "cron is 'hello'"),
        ({"cron": "61 * * * *"}, "cron is '61 * * * *'"),
        ({"cron": "0 0 31 2 *"}, "cron is '0 0 31 2 *'"),
        ({"cron": "* * * * *", "tz": "Mars/Olympus"}, "tz is 'Mars/Olympus'"),
        ({"cron": "* " * 100_000}, "cron is"),
        ({"delay": 1, "misfire": "never"}, "misfire is 'never'"),
        ({"every": 60, "overlap": "never"}, "overlap is 'never'"),
        ({"delay": 1, "overlap": "skip"}, "overlap is 'skip'"),
        ({"delay": 1, "mode": "append"}, "mode is 'append'"),
        ({"delay": 1, "retry": {"attempts": 0}}, "retry.attempts is 0"),
        ({"delay": 1, "retry": {"kind": "random"}}, "retry.kind is 'random'"),
        ({"delay": 1, "retry": {"jitter": 2}}, "retry.jitter is 2"),
        ({"delay": 1, "expires": -1}, "expires is -1"),
        ({"delay": 1, "max_wait": 5, "mode": "keep"}, "max_wait is 5"),
        ({"delay": 1, "trace": "x"}, "trace is 'x'"),
        ({"delay": 1, "target": "nowhere"}, "nowhere"),
        ({"delay": 1, "target": "handler"}, "handler"),
        ({"delay": 1, "target": "webhook", "handler": "ftp://example.com"}, "ftp://example.com"),
        ({"delay": 1, "target": "log", "handler": "a\0b"}, "handler is"),
        ({"delay": 1, "target": "log", "handler": "x" * 5_000}, "handler is"),
        ({"delay": 1, "wait": 5}, "unknown field `wait`"),
        ([], "the body is []"),
        ("delay", "the body is 'delay'"),
        (5, "the body is 5"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_values_of_set(server, kept, body, part):
    """
    For a value that no job may have, the answer is a 422 that names the value.
    """
    if isinstance(body, dict) and "target" not in body and "handler" not in body:
        body = body | {"target": "log"}
    check_problem(server.job("PUT", kept, body), 422, "invalid_value", part)


def test_unknown_handler(server, kept):
    """
    A job for a handler that is not registered is refused with a 422, and is not stored.
    """
    check_problem(server.job("PUT", kept, {"delay": 1, "handler": "nobody"}), 422, "unknown_handler", "'nobody'")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"delay": 3',
        b'{"delay": NaN}',
        b'{"delay": Infinity}',
        b'{"delay": 1, "delay": 2}',
        b'{"delay": 1, "payload": {"a": 1, "a": 2}}',
        b'{"delay": 1, "payload": "\\ud800"}',
        b'{"delay": 1, "payload": "\xff"}',
        b'{"delay": 1, "payload": "a\x00b"}',
        b'{"delay": 1, "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"delay": 1, "payload": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b"\x00\x01\x02",
        b"<xml/>",
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_malformed_json(server, kept, raw):
    """
    A body that is not strict JSON leads to a 400, at every address that takes a body.
    """
    path = f"/v1/jobs/{kept}"
    check_problem(server.ask("PUT", path, raw=raw, headers={"content-type": "application/json"}), 400, "malformed_json")


@pytest.mark.parametrize(
    ("text", "part"), [('"\\ud800"', "surrogate"), ('"\\ud800', "truncated"), ("{\\ud800}", "malformed")]
)
def test_half_of_a_surrogate_pair(server, kept, text, part):
    """
    If a string contains half of a surrogate pair, the error says so. Other malformed text has a different error.
    """
    raw = b'{"delay": 1, "target": "log", "payload": ' + text.encode() + (b"}" if part != "truncated" else b"")
    answer = server.ask("PUT", f"/v1/jobs/{kept}", raw=raw, headers={"content-type": "application/json"})
    check_problem(answer, 400, "malformed_json", part)


def test_huge_number(server, kept):
    """
    A number larger than the largest float is refused.

    The error names the field.
    """
    answer = server.ask(
        "PUT", f"/v1/jobs/{kept}", raw=b'{"delay": 1e400}', headers={"content-type": "application/json"}
    )
    check_problem(answer, 422, "invalid_value", "delay is 1e400")
    assert answer.json["value"] == "1e400"


def test_a_refused_value_is_shown_as_json(server, kept):
    """
    If the library refuses a value, the error shows the value in JSON notation, not in Python's.
    """
    payload = {"none": None, "yes": True, "text": "x" * (1 << 20)}
    answer = server.job("PUT", kept, FAR | {"payload": payload})
    check_problem(answer, 422, "invalid_value", """payload is {"none": null, "yes": true""")


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/xml",
        "",
        "json",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        'application/json; version=1; Charset="latin-1"',
    ],
)
def test_content_type(server, kept, kind):
    """
    A body without a JSON content type leads to a 415.
    """
    check_problem(server.ask("PUT", f"/v1/jobs/{kept}", FAR, {"content-type": kind}), 415, "unsupported_media_type")


def test_content_type_with_parameters(server):
    """
    The content type may have parameters, for example the charset UTF-8.
    """
    for kind in ("Application/JSON; charset=utf-8", 'application/json;Charset="UTF-8"; version=2'):
        assert server.ask("PUT", "/v1/jobs/utf8", FAR, {"content-type": kind}).status in (200, 201)
    server.job("DELETE", "utf8")


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "key", ["", "k" * 513, "k" * 10_240, "é" * 257, "a\0b"], ids=lambda key: f"{key[:3]!r}x{len(key)}"
)
def test_bad_keys(server, method, key):
    """
    For a key that is empty, longer than 512 bytes, or contains NUL, every verb returns a 422.
    """
    body = {"PUT": FAR, "PATCH": {"delay": 1}}.get(method)
    check_problem(server.job(method, key, body), 422, "invalid_value", "key is")


@pytest.mark.parametrize("path", ["%ff", "a%c3", "%ed%a0%80"])
def test_a_key_that_is_not_utf8(server, path):
    """
    Bytes in the address that are not UTF-8, including lone surrogates, lead to a 400.
    """
    check_problem(server.ask("PUT", f"/v1/jobs/{path}", FAR), 400, "malformed_request", "the key in the address")


def test_the_slash_of_the_prefix_is_not_part_of_a_key(server):
    """
    If the slash after the path prefix is percent-encoded, the answer is a 404.
    """
    check_problem(server.ask("PUT", "/v1/jobs%2Fabc", FAR), 404, "page_not_found")


def test_large_bodies(server, kept):
    """
    A body of 10 MB leads to a 413, whether or not the request announced its length.

    A body of 1 MiB is accepted.
    """
    huge = {"delay": 3600, "target": "log", "payload": "x" * 10_000_000}
    check_problem(server.job("PUT", kept, huge), 413, "too_large")

    def chunks():
        for _ in range(200):
            yield b" " * 50_000

    check_problem(
        server.ask("PUT", f"/v1/jobs/{kept}", raw=chunks(), headers={"content-type": "application/json"}),
        413,
        "too_large",
    )
    assert server.job("PUT", "large", FAR | {"payload": "x" * ((1 << 20) - 2)}).status == 201
    too_large = server.job("PUT", "large", FAR | {"payload": "x" * ((1 << 20) - 1)})
    check_problem(too_large, 422, "invalid_value", "payload is", "the limit is 1048576")
    server.job("DELETE", "large")


@pytest.mark.parametrize("header", ['17"', 'W/"17"', '"x"', '"1", "2"', "*", '"-1"', '"99999999999999999999"', '"1'])
def test_conditions_that_cannot_be_read(server, kept, header):
    """
    A precondition that is not exactly one entity tag of tickwheel leads to a 400, and is not ignored.
    """
    for method, body in (("PUT", FAR), ("PATCH", {"delay": 1}), ("DELETE", None)):
        check_problem(server.job(method, kept, body, {"if-match": header}), 400, "malformed_request", "If-Match")
    both = {"if-match": header, "if-none-match": "*"}
    check_problem(server.job("PUT", kept, FAR, both), 400, "malformed_request", "If-Match")


def test_conditions_that_contradict(server, kept):
    """
    A request with both If-Match and If-None-Match is refused.
    """
    both = {"if-match": '"1"', "if-none-match": "*"}
    check_problem(server.job("PUT", kept, FAR, both), 422, "invalid_value", "If-None-Match")


@pytest.mark.parametrize("address", ["jobs:batch", "jobs:bulk", "schedules/k:backfill", "scopes:pause", "pull:lease"])
@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_conditions_without_a_single_job(server, address, header):
    """
    A precondition on a request that is not about a single job is refused, not ignored.
    """
    answer = server.ask("POST", f"/v1/{address}", {}, {header: '"17"'})
    check_problem(answer, 400, "malformed_request", f"{header} is '\"17\"': leave it out here")


def test_unknown_job(server):
    """
    A request about a job that does not exist returns a 404 that names the key.
    """
    for method, body in (("GET", None), ("PATCH", {"delay": 1}), ("DELETE", None)):
        check_problem(server.job(method, "never/set", body), 404, "job_not_found", "'never/set'")
    for action in (":run", ":replay"):
        check_problem(server.job("POST", "never/set", action=action), 404, "job_not_found", "'never/set'")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=x",
        "limit=1e3",
        "limit=٣",
        "limit=" + "9" * 5_000,
        "state=done",
        "due_from=yesterday",
        "due_from=2050-01-01T00:00:00",
        "due_from=nan",
        "due_until=inf",
        "order=random",
        "order=due&prefix=a",
        "prefix=a&prefix=b",
        "prefix=%00",
        "prefix=" + "k" * 513,
        "handler=%00",
        "cursor=%00",
    ],
    ids=lambda query: query[:24],
)
def test_bad_queries(server, query):
    """
    An invalid or unknown query field leads to a 422 that names the field.
    """
    check_problem(
        server.ask("GET", f"/v1/jobs?{quote(query, safe='=&%-:')}"), 422, "invalid_value", query.partition("=")[0]
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/jobs/never"),
        ("GET", "/v1/jobs/never"),
        ("POST", "/v1/jobs/never:run"),
        ("POST", "/v1/jobs:batch"),
        ("GET", "/v1/stats"),
        ("GET", "/v1/scopes"),
    ],
)
def test_a_query_that_is_not_allowed(server, method, path):
    """
    An operation without query fields refuses every query.
    """
    check_problem(server.ask(method, f"{path}?x=1"), 422, "invalid_value", "the query's field is 'x': use no field")


@pytest.mark.parametrize("query", ["prefix=%ff", "a=1&" * 100])
def test_unreadable_queries(server, query):
    """
    A query that is not UTF-8 or has too many fields leads to a 400.
    """
    check_problem(server.ask("GET", f"/v1/jobs?{query}"), 400, "malformed_request", "the query")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v1/jobs", "GET, HEAD"),
        ("DELETE", "/v1/stats", "GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
        ("PUT", "/static/page.css", "GET, HEAD"),
        ("BREW", "/v1/jobs/x", "DELETE, GET, HEAD, PATCH, PUT"),
    ],
)
def test_wrong_methods(server, method, path, allow):
    """
    A method that an address does not support leads to a 405, which lists the supported methods.
    """
    answer = server.ask(method, path)
    if answer.status == 400:  # the parser itself rejects the method
        assert method == "BREW"
        return
    check_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/v1", "/v1/", "/static/../app.py", "/static/%2e%2e/app.py", "/static/none.js", "/problems/none"],
)
def test_unknown_addresses(server, path):
    """
    A request to an unknown address gets a 404, also below the folder of the page's files.
    """
    check_problem(server.ask("GET", path), 404, "page_not_found")


def test_an_unknown_action(server):
    """
    In `POST /v1/jobs/x:explode` the action is unknown, so "x:explode" counts as a key, and the method is refused.
    """
    check_problem(server.ask("POST", "/v1/jobs/x:explode"), 405, "method_not_allowed", "not 'POST'")
    check_problem(server.ask("PUT", "/v1/jobs/x:run", FAR), 405, "method_not_allowed", "takes POST")


def test_every_problem_is_explained(server):
    """
    The `type` of each problem leads to an explanation in the documentation.
    """
    problem = server.job("GET", "never/set").json
    explained = server.ask("GET", problem["type"])
    assert (explained.status, explained.json["status"]) == (200, 404)


def test_types_resolve(server):
    """
    The `type` of each problem is an address of the service, where a page explains the problem.
    """
    for name, kind in PROBLEM_TYPES.items():
        answer = server.ask("GET", f"/problems/{name}")
        assert answer.status == 200
        assert answer.json == {"name": name, "status": kind.status, "title": kind.title, "remedy": kind.remedy}
    problem = server.job("GET", "nobody").json
    assert server.ask("GET", problem["type"]).json["title"] == problem["title"]
