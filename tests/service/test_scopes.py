"""
Pausing a handler, a queue, a target or all jobs over HTTP.
"""

from __future__ import annotations

import pytest

from tickwheel.scheduler import Scheduler, UnsupportedError


def test_pause_and_resume(server, until):
    """
    A paused scope (a handler, a queue, a target or all jobs) is listed until it is resumed.

    The list shows who paused the scope, the reason, and the number of its jobs.
    """
    answer = server.ask("POST", "/v1/scopes:pause", {"scope": "pull:scoped", "note": "moving"})
    assert answer.status == 200
    pause = answer.json
    assert (pause["scope"], pause["by"], pause["note"]) == ("pull:scoped", "http", "moving")
    assert server.ask("GET", "/v1/scopes").json == {"pauses": [pause]}
    server.job("PUT", "scoped/1", {"delay": 0, "target": "pull", "handler": "scoped"})
    until(lambda: server.job("GET", "scoped/1").json["pause"])
    job = server.job("GET", "scoped/1").json
    assert (job["state"], job["lacks_handler"], job["pause"]) == ("pending", False, pause)
    until(lambda: server.ask("GET", "/v1/stats").json["paused_scopes"] == [pause | {"count": 1}])
    assert 'tickwheel_paused_scope{scope="pull:scoped"} 1.0' in server.ask("GET", "/metrics").body.decode()
    lease = {"queue": "scoped", "wait": 0.2}
    assert server.ask("POST", "/v1/pull:lease", lease).json["leases"] == []
    history = server.ask("GET", "/v1/jobs/pull%3Ascoped:history").json["records"]
    assert [(each["outcome"], each["by"], each["error"]) for each in history] == [("paused", "http", "moving")]
    assert server.ask("POST", "/v1/scopes:resume", {"scope": "pull:scoped"}).json == {"was_paused": True}
    (lease,) = server.ask("POST", "/v1/pull:lease", {**lease, "wait": 20}).json["leases"]
    assert lease["job"]["key"] == "scoped/1"
    server.ask("POST", "/v1/pull:ack", {"fire_id": lease["fire_id"]})
    assert server.ask("POST", "/v1/scopes:resume", {"scope": "pull:scoped"}).json == {"was_paused": False}
    assert server.ask("GET", "/v1/scopes").json == {"pauses": []}


@pytest.mark.parametrize("scope", ["", "nobody", "handler:", 5, None, "handler:" + "x" * 3_000])
def test_refused(server, scope):
    """
    A pause is refused if its scope is invalid or has an unknown target.
    """
    answer = server.ask("POST", "/v1/scopes:pause", {"scope": scope})
    assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")
    assert server.ask("GET", "/v1/scopes").json == {"pauses": []}


def test_a_client_pauses_a_target(server, until):
    """
    A scheduler that is a client of the service can pause and resume a target, but cannot choose the pause's author.
    """
    client = Scheduler(f"http://{server.host}:{server.port}")
    try:
        pause = client.pause_scope("webhook:https://example.com/é", note="moving")
        assert list(client.paused_scopes()) == [pause]
        until(lambda: client.stats()["paused_scopes"])
        assert client.stats()["paused_scopes"][0]["at"] == pause.at
        assert (pause.by, pause.note, pause.scope) == ("http", "moving", "webhook:https://example.com/é")
        with pytest.raises(UnsupportedError):
            client.pause_scope("webhook", by="me")
        assert client.resume_scope(pause.scope)
        assert not client.resume_scope(pause.scope)
    finally:
        client.stop()
