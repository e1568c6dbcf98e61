"""
Tokens that expire, and tokens that are restricted to keys with one prefix.

The tests show what these tokens allow, and how refusals are recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service import Service, ServiceOptions, TokenFileError, Tokens
from tickwheel.service.rejections import Rejections
from tickwheel.service.tokens import Access, Token, digest_of

WRITE, TEAM, READER, TRICK, OLD, PULL = (name * 10 for name in ("rite", "team", "read", "tric", "oldt", "pull"))
NOW, FAR = ({"delay": delay, "target": "log"} for delay in (0, 3600))
KEYS = ("team/1", "team/2", "team", "teal/1", "other", "a", "a:run")
NARROWED = {"jobs_list", "schedules_list", "schedules_next", "incidents_list", "figures_get_firings"}
"""Operations that return a list. For a token with a prefix, the list contains only keys with this prefix."""
OPEN = {"figures_healthz", "figures_readyz"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, server):
    """
    Return a server with tokens for all keys, for the prefix `team/` and for the prefix `a:run`, and an expired token.
    """
    folder = tmp_path_factory.mktemp("tokens")
    tokens = (
        Token(Access.WRITE, digest_of(WRITE), "all"),
        Token(Access.WRITE, digest_of(TEAM), "the team", "team/"),
        Token(Access.READ, digest_of(READER), "a reader", "team/"),
        Token(Access.WRITE, digest_of(TRICK), "", "a:run"),
        Token(Access.READ, digest_of(PULL), "", "pull:"),
        Token(Access.WRITE, digest_of(OLD), "old", until=900_000_000.0),
    )
    (folder / "tokens").write_text("\n".join(token.line() for token in tokens))
    guarded = type(server)(folder, "--tokens", "tokens")
    for key in KEYS:
        assert guarded.job("PUT", key, FAR, bearer(WRITE)).status == 201
    yield guarded
    assert guarded.stop() == 0


def bearer(token: str) -> dict[str, str]:
    """
    Return the headers with *token*.
    """
    return {"authorization": f"Bearer {token}"}


def ask(server, path: str, body=None, token: str = TEAM, method: str | None = None):
    """
    Request *path* with *token*.

    The method is GET, or POST if there is a body.
    """
    return server.ask(method or ("GET" if body is None else "POST"), path, body, bearer(token))


def test_every_operation_outside_the_prefix(document, bodies, guarded):
    """
    With a token for one prefix, every operation on other keys is refused, and lists have only keys with the prefix.
    """
    statuses = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            if name == "live_stream":
                continue  # the stream does not end; it is tested below
            query = "?every=60" if name == "schedules_next" else ""
            address = path.replace("{key}", "other") + query
            answer = ask(guarded, address, bodies.get(name), method=method.upper())
            statuses[name] = answer.status
            if answer.status == 403:
                assert "team/" in answer.json["detail"], name
                assert "job" not in answer.json, name
    assert len(statuses) > 30
    assert {name for name, status in statuses.items() if status == 200} == NARROWED | OPEN
    assert {status for name, status in statuses.items() if name not in NARROWED | OPEN} == {403}
    assert guarded.job("GET", "other", headers=bearer(WRITE)).json["state"] == "pending"


def test_operations_within_the_prefix(guarded, until):
    """
    A token for one prefix allows every operation on keys with this prefix, and a read token allows only reads.
    """
    headers = bearer(TEAM)
    assert guarded.job("PUT", "team/new", FAR, headers).status == 201
    assert guarded.job("PATCH", "team/new", {"delay": 60}, headers).status == 200
    assert guarded.job("POST", "team/new", {"note": "wait"}, headers, ":pause").json["job"]["pause"]["by"] == "the team"
    records = guarded.job("GET", "team/new", None, headers, ":history").json["records"]
    assert [(each["outcome"], each["by"]) for each in records] == [
        (outcome, "the team") for outcome in ("paused", "moved", "created")
    ]
    assert guarded.job("DELETE", "team/new", None, headers).status == 200
    until(
        lambda: "INFO tickwheel.service: DELETE '/v1/jobs/team/new' by the token 'the team'" in "".join(guarded.errors)
    )
    assert guarded.job("GET", "team/1", None, bearer(READER)).status == 200
    assert guarded.job("DELETE", "team/1", None, bearer(READER)).status == 403


def test_lists(guarded):
    """
    With a token for one prefix, a list has only keys with this prefix, whatever prefix and cursor are requested.
    """

    def keys(query: str) -> list[str]:
        return [job["key"] for job in ask(guarded, f"/v1/jobs?{query}").json["jobs"]]

    own = ["team/1", "team/2"]
    for query in ("", "prefix=", "prefix=team/", "cursor=a", "state=pending", "cursor=team", "handler="):
        assert keys(query) == own, query
    assert keys("prefix=team/2") == ["team/2"]
    assert keys("cursor=zzz") == []
    for query in ("prefix=t", "prefix=other", "prefix=team", "order=due", "order=due&limit=5"):
        assert ask(guarded, f"/v1/jobs?{query}").status == 403, query
    assert ask(guarded, "/v1/schedules?prefix=t").status == 403
    assert ask(guarded, "/v1/incidents?prefix=t").status == 403
    assert ask(guarded, "/v1/incidents").json["looked_at"] == 0


def keys_of(documents) -> list[str]:
    """
    Return the keys of jobs or firings.
    """
    return [each["key"] for each in documents]


def test_firings(guarded, until):
    """
    With a token for one prefix, only firings of keys with this prefix are shown, and no figures about all jobs.
    """
    near = [*(f"other/{number}" for number in range(120)), "team", "teal/2", "TEAM/2", " team/2", "x/team/2"]
    with guarded.live(bearer(TEAM)) as live, guarded.live(bearer(READER)) as read:
        assert live.event()[0] == "reach"
        assert live.event() == ("firings", {"is_snapshot": True, "firings": []})
        assert guarded.job("PUT", "team/first", NOW, bearer(TEAM)).status == 201
        live.firing("team/first", "succeeded")
        items = [{"do": "set", "key": key, **NOW} for key in near]
        assert ask(guarded, "/v1/jobs:batch", {"items": items}, WRITE).status == 200
        until(lambda: set(near) <= set(keys_of(ask(guarded, "/v1/firings?limit=500", token=WRITE).json["firings"])))
        assert guarded.job("PUT", "team/last", NOW, bearer(TEAM)).status == 201
        found = []
        while "team/last" not in found:
            name, data = live.event()
            assert name in {"reach", "firings"}
            if name == "reach":
                assert data == {"prefix": "team/", "can_write": True, "trace_url": None, "now": data["now"]}
            else:
                assert data["firings"]  # an empty report would show that another job has fired
                found += keys_of(data["firings"])
        assert set(found) == {"team/last"}
        assert read.event()[1]["can_write"] is False
    with guarded.live(bearer(TEAM)) as live:
        live.event()
        assert set(keys_of(live.event()[1]["firings"])) == {"team/first", "team/last"}
    assert set(keys_of(ask(guarded, "/v1/firings?limit=2").json["firings"])) == {"team/first", "team/last"}
    assert keys_of(ask(guarded, "/v1/firings?key=team/first").json["firings"]) == ["team/first"]
    for key in ("", "team", "other/1", "TEAM/2", "%20team/2", "x/team/2"):
        assert ask(guarded, f"/v1/firings?key={key}").status == 403, key


def test_dead_letters(guarded, until):
    """
    With a token for one prefix, no search, filter, fingerprint or count includes dead letters of other keys.
    """
    body = {"delay": 0, "target": "webhook", "handler": "http://127.0.0.1:1/", "retry": {"attempts": 1}}
    for key in ("other/dead", "team/dead"):
        assert guarded.job("PUT", key, body, bearer(WRITE)).status == 201
    until(lambda: ask(guarded, "/v1/incidents", token=WRITE).json["looked_at"] == 2)
    (incident,) = ask(guarded, "/v1/incidents", token=WRITE).json["incidents"]
    for query in ("", "prefix=team/", "search=dead", "keys=100", f"fingerprint={incident['fingerprint']}"):
        found = ask(guarded, f"/v1/incidents?{query}").json
        assert [(each["keys"], each["count"]) for each in found["incidents"]] == [(["team/dead"], 1)], query
        assert (found["looked_at"], sum(found["incidents"][0]["by_hour"])) == (1, 1)
    assert ask(guarded, "/v1/incidents?search=other/").json["incidents"] == []
    for query in ("state=dead", "contains=dead", "error=127.0.0.1", "target=webhook", "handler=http://127.0.0.1:1/"):
        assert keys_of(ask(guarded, f"/v1/jobs?{query}").json["jobs"]) == ["team/dead"], query
    assert keys_of(ask(guarded, "/v1/jobs?contains=other").json["jobs"]) == []
    assert ask(guarded, "/v1/incidents?prefix=other").status == 403
    assert guarded.job("DELETE", "other/dead", headers=bearer(WRITE)).status == 200


def test_acts_on_a_scope_with_the_name_of_a_key(guarded):
    """
    A scope (a group of jobs that are paused together) can have the same name as a job's key.

    A token for one prefix does not show pauses of the scope in the history of the key. It cannot read the log of acts
    or
    the figures by minute.
    """
    assert ask(guarded, "/v1/scopes:pause", {"scope": "pull:images", "note": "secret"}, WRITE).status == 200
    assert ask(guarded, "/v1/scopes:resume", {"scope": "pull:images"}, WRITE).status == 200
    assert guarded.job("PUT", "pull:images", FAR, bearer(WRITE)).status == 201
    outcomes = {
        token: [each["outcome"] for each in ask(guarded, "/v1/jobs/pull:images:history", token=token).json["records"]]
        for token in (WRITE, PULL)
    }
    assert outcomes == {WRITE: ["created", "resumed", "paused"], PULL: ["created"]}
    for path in ("/v1/acts", "/v1/acts?since=0&limit=1", "/v1/minutes", "/v1/minutes?lanes=false"):
        assert ask(guarded, path, token=PULL).status == 403, path
        assert ask(guarded, path, token=WRITE).status == 200, path


def test_batches(guarded):
    """
    If any key of a batch lacks the token's prefix, or a batch has a filter, the whole batch is refused.
    """
    inside = {"do": "set", "key": "team/batch", **FAR}
    for item in (
        {"do": "set", "key": "other", **FAR},
        *({"do": verb, "key": "other"} for verb in ("cancel", "replay", "pause", "resume")),
        {"do": "move", "key": "other", "delay": 1},
    ):
        for refuse_all in (False, True):
            answer = ask(guarded, "/v1/jobs:batch", {"items": [inside, item], "refuse_all": refuse_all})
            assert (answer.status, answer.json["value"]) == (403, "'other'")
    assert guarded.job("GET", "team/batch", headers=bearer(WRITE)).status == 404
    assert ask(guarded, "/v1/jobs:batch", {"items": [inside]}).json["results"][0]["status"] == 201
    for prefix in ("t", "team/"):
        assert ask(guarded, "/v1/jobs:bulk", {"do": "cancel", "prefix": prefix}).status == 403
    assert ask(guarded, "/v1/jobs:batch", {"items": [{"do": "cancel", "key": "team/batch"}]}).status == 200


def test_a_key_that_ends_like_an_action(guarded):
    """
    The token's prefix is compared with the key of a job, not with the address of the request.
    """
    assert ask(guarded, "/v1/jobs/a:run", {}, TRICK).status == 403
    assert ask(guarded, "/v1/jobs/a%3Arun", token=TRICK).status == 200
    assert ask(guarded, "/v1/jobs/a%3Arun:run", {}, TRICK).status == 200


def test_a_kept_answer_belongs_to_its_token(guarded):
    """
    A request does not get the answer that was stored for another token's request with the same Idempotency-Key.
    """
    key = {"idempotency-key": "one"}
    assert guarded.job("PUT", "other", FAR, bearer(WRITE) | key).status == 200
    assert guarded.job("PUT", "other", FAR, bearer(TEAM) | key).status == 403


def test_expired(guarded):
    """
    An expired token is refused. The refusal is counted and logged under the name of the token.
    """
    answer = guarded.job("GET", "team/1", headers=bearer(OLD))
    assert answer.status == 401
    assert answer.json["detail"] == "the token expired at 1998-07-09T16:00:00Z"
    for _ in range(5):
        assert guarded.job("GET", "team/1", headers=bearer("guess" * 8)).status == 401
    assert guarded.job("GET", "team/1").status == 401
    text = guarded.ask("GET", "/metrics", headers=bearer(WRITE)).body.decode()
    counts = {
        line.split('"')[1]: float(line.split()[1])
        for line in text.splitlines()
        if line.startswith("tickwheel_rejections_total{")
    }
    assert counts.keys() == {"missing", "unknown", "expired", "forbidden"}
    assert (counts["expired"], counts["unknown"]) == (1.0, 5.0)
    assert counts["missing"] >= 1
    log = "".join(guarded.errors + guarded.lines)
    assert log.count("its token is unknown") == 1
    assert "its token 'old' is expired" in log
    assert not any(token in log for token in (WRITE, TEAM, READER, OLD, "guess" * 8))


def test_open_requests_end_with_their_token():
    """
    When a token expires, its live streams and its waiting requests for jobs end at once.
    """
    token = Token(Access.WRITE, digest_of(WRITE), until=time.time() + 4)

    async def ask_both() -> list[tuple[int, bytes]]:
        async with AsyncScheduler("memory://") as scheduler:
            service = Service(scheduler, ServiceOptions(tokens=Tokens((token,))))
            lease = b'{"queue":"scans","wait":60}'
            return await asyncio.gather(
                answer_of(service, "GET", "/v1/live"), answer_of(service, "POST", "/v1/pull:lease", lease)
            )

    (live, events), (lease, problem) = asyncio.run(asyncio.wait_for(ask_both(), 60))
    assert token.until is not None
    assert time.time() >= token.until
    assert (live, events[:13]) == (200, b"event: stats\n")
    assert (lease, b"expired" in problem) == (401, True)


async def answer_of(service: Service, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """
    Send a request, and return the status and body of the answer.

    The client stays connected.
    """
    sent: list[Any] = []
    asked = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return asked.pop() if asked else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        await asyncio.sleep(0)
        sent.append(message)

    headers = {"host": "localhost", "content-type": "application/json", **bearer(WRITE)}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    await service(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def test_a_line_of_a_token_file():
    """
    A token's line in the token file has all properties of the token, which can be read again, but not its secret.
    """
    tokens = (
        Token(Access.READ, "0" * 64),
        Token(Access.WRITE, "1" * 64, "whose", "a b#c/é%=", 2_000_000_000.0),
        Token(Access.WRITE, "2" * 64, prefix="team/"),
    )
    assert [Token.from_line(token.line()) for token in tokens] == list(tokens)
    assert tokens[2].line() == f"write {'2' * 64} prefix=team/"
    assert Token.from_line("  # nothing") is None


@pytest.mark.parametrize(
    "rest",
    [
        "prefix=",
        "prefix",
        "until=",
        "until=2030-01-01T09:00:00",
        "until=soon",
        "prefix=a prefix=b",
        "scope=x",
        "prefix=%ff",
        "x",
    ],
)
def test_bad_lines(tmp_path, rest):
    """
    A line with extra text after the hash is refused. A misspelt restriction would otherwise give full rights.
    """
    (tmp_path / "tokens").write_text(f"# tokens\nread {'0' * 64} {rest}\n")
    with pytest.raises(TokenFileError, match="line 2"):
        Tokens.from_file(str(tmp_path / "tokens"))


def test_a_token_twice(tmp_path):
    """
    If a token is listed twice, the file is refused, because it is not clear which line applies.
    """
    (tmp_path / "tokens").write_text(f"read {'0' * 64}\nwrite {'0' * 64} prefix=a\n")
    with pytest.raises(TokenFileError, match="line 2"):
        Tokens.from_file(str(tmp_path / "tokens"))


def test_rejections_are_logged_seldom(caplog):
    """
    If many requests are refused for the same reason, one line with the number of refusals is logged every ten seconds.
    """
    now = [100.0]
    rejections = Rejections(lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            rejections.note("unknown", "127.0.0.1")
        rejections.note("forbidden", "127.0.0.1", "the\nboard")
        rejections.note("missing", "127.0.0.1")
        now[0] += 10
        rejections.note("unknown", "::1")
    assert caplog.messages == [
        "a request from '127.0.0.1' was refused: its token is unknown",
        "a request from '127.0.0.1' was refused: its token 'the\\nboard' is forbidden",
        "a request from '::1' was refused: its token is unknown, and 999 others since the last such line",
    ]
    assert rejections.counts() == {"missing": 1, "unknown": 1001, "expired": 0, "forbidden": 1}
