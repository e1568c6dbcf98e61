"""
The explanation why a job has not run yet: over HTTP, with the library's client and on the command line.
"""

from __future__ import annotations

import json

import pytest

from tickwheel.cli import app
from tickwheel.cli.exits import ExitCode
from tickwheel.scheduler import Scheduler, WaitReason

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

HOUR = 3600


def explained(server, key):
    """
    Return the document that explains why *key* has not run.
    """
    answer = server.job("GET", key, action=":explain")
    assert answer.status == 200, answer.json
    return answer.json


def test_reasons(server, client):
    """
    HTTP and the client give the same reason for a future job, a job without a handler, and a queue without workers.
    """
    server.job("PUT", "ahead/of it:explain", {"delay": HOUR, "handler": "works"})
    server.job("PUT", "queued", {"delay": 0, "target": "pull", "handler": "idle"})
    server.job("PUT", "paused", {"delay": HOUR, "handler": "works"})
    server.job("POST", "paused", {"note": "later"}, action=":pause")
    for key, reason, lane in (
        ("ahead/of it:explain", "not_due", "handler:works"),
        ("queued", "no_worker", "pull:idle"),
        ("paused", "paused", "handler:works"),
    ):
        document = explained(server, key)
        while key == "queued" and document["reason"] == "starting":
            document = explained(server, key)
        assert (document["key"], document["reason"], document["lane"]) == (key, reason, lane)
        assert document["remedy"]
        found = client.explain(key)
        assert (found.reason, found.lane, found.text[:10]) == (WaitReason(reason), lane, document["text"][:10])
        assert found.owner == document["owner"] == server.ask("GET", "/v1/stats").json["owner"]
    assert client.explain("ahead/of it:explain").until == client.get("ahead/of it:explain").due_at
    state = client.explain("queued").state
    assert (state.waiting, state.oldest_due_at) == (1, client.get("queued").due_at)
    lanes = server.ask("GET", "/v1/stats").json["lanes"]
    assert [lane["reason"] for lane in lanes if lane["lane"] == "pull:idle"] == ["no_worker"]
    assert [lane["waiting"] for lane in client.stats()["lanes"] if lane["lane"] == "pull:idle"] == [1]


def test_no_job(server, client):
    """
    If a job does not exist, the HTTP API returns a problem document, and the client returns None.
    """
    answer = server.job("GET", "none", action=":explain")
    assert (answer.status, answer.json["type"].rpartition("/")[2]) == (404, "job_not_found")
    assert client.explain("none") is None


def test_a_service_that_does_not_answer():
    """
    If no service answers, the explanation says so.
    """
    scheduler = Scheduler("http://127.0.0.1:9", timeout=0.2)
    found = scheduler.explain("k")
    assert (found.reason, found.state) == (WaitReason.STORE_UNREACHABLE, None)
    scheduler.stop()


def test_the_command(server, capsys):
    """
    The command prints the explanation as text for people.

    With --json, it prints the API's document. For a missing job, the command fails.
    """
    server.job("PUT", "told", {"delay": HOUR, "handler": "works"})
    url = f"http://{server.host}:{server.port}"
    assert app.run(("explain", "told", "--store", url, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    told = explained(server, "told")
    assert document.keys() == told.keys()
    assert {**document, "text": ""} == {**told, "text": ""}
    assert app.run(("explain", "told", "--store", url)) == 0
    lines = dict(line.split("\t", 1) for line in capsys.readouterr().out.splitlines())
    assert (lines["reason"], lines["lane"]) == ("not_due", "handler:works")
    assert lines["remedy"] == told["remedy"]
    assert app.run(("explain", "none", "--store", url)) == ExitCode.NOT_FOUND
    assert "no job has the key 'none'" in capsys.readouterr().err
