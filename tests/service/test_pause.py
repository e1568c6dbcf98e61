"""
Pause and resume over HTTP.
"""

from __future__ import annotations

import pytest

from tickwheel.service.tokens import digest_of

FAR = {"delay": 3600, "target": "log"}


def test_pause_and_resume(server):
    """
    A paused job stays pending, and is listed with the author and the reason. The resumed job has the same generation.
    """
    created = server.job("PUT", "paused/job", FAR)
    answer = server.job("POST", "paused/job", {"note": "moving"}, action=":pause")
    assert (answer.status, answer.json["outcome"]) == (200, "paused")
    assert answer.headers["etag"] == created.headers["etag"]
    job = server.job("GET", "paused/job").json
    assert job == answer.json["job"]
    assert (job["state"], job["pause"]["by"], job["pause"]["note"]) == ("pending", "http", "moving")
    assert [each["key"] for each in server.ask("GET", "/v1/jobs?paused=true").json["jobs"]] == ["paused/job"]
    assert server.ask("GET", "/v1/jobs?paused=true&prefix=x").json["jobs"] == []
    resumed = server.job("POST", "paused/job", None, action=":resume")
    assert (resumed.status, resumed.json["outcome"], resumed.json["job"]["pause"]) == (200, "resumed", None)
    assert server.job("POST", "paused/job", None, action=":resume").json["outcome"] == "kept"
    assert server.ask("GET", "/v1/jobs?paused=true").json["jobs"] == []
    server.job("DELETE", "paused/job")


def test_figures(server):
    """
    The stats, the metrics and the list of recurring jobs show paused jobs.
    """
    server.job("PUT", "paused/schedule", {"cron": "0 9 * * *", "target": "log"})
    server.job("POST", "paused/schedule", {}, action=":pause")
    schedule = server.ask("GET", "/v1/schedules/paused%2Fschedule").json
    assert schedule["pause"]["note"] == ""
    assert server.ask("GET", "/v1/stats").json["paused"] == 1
    assert "tickwheel_paused 1.0" in server.ask("GET", "/metrics").body.decode()
    server.job("DELETE", "paused/schedule")


def test_refused(server):
    """
    A pause is refused if the job is unknown or has another generation, or if the request has an invalid field.
    """
    for action in (":pause", ":resume"):
        body = {} if action == ":pause" else None
        assert server.job("POST", "nobody", body, action=action).status == 404
    etag = server.job("PUT", "refused", FAR).headers["etag"]
    other = {"if-match": f'"{int(etag.strip(chr(34))) + 1}"'}
    assert server.job("POST", "refused", {}, other, action=":pause").status == 412
    assert server.job("POST", "refused", None, other, action=":resume").status == 412
    assert (
        server.job("POST", "refused", {"note": "x" * 1001}, action=":pause").json["type"] == "/problems/invalid_value"
    )
    assert server.job("POST", "refused", {"by": "me"}, action=":pause").status == 422
    assert server.ask("GET", "/v1/jobs?paused=maybe").json["type"] == "/problems/invalid_value"
    assert server.job("GET", "refused").json["pause"] is None
    server.job("DELETE", "refused")


def test_a_batch(server):
    """
    A batch pauses and resumes jobs in the order of its items. Each item has its own result.
    """
    items = [
        {"do": "set", "key": "batch/a", **FAR},
        {"do": "pause", "key": "batch/a", "note": "why"},
        {"do": "pause", "key": "batch/none"},
    ]
    results = server.ask("POST", "/v1/jobs:batch", {"items": items, "with_jobs": True}).json["results"]
    assert [each["outcome"] for each in results] == ["created", "paused", "refused"]
    assert results[1]["job"]["pause"]["note"] == "why"
    results = server.ask("POST", "/v1/jobs:batch", {"items": [{"do": "resume", "key": "batch/a"}]}).json["results"]
    assert [each["outcome"] for each in results] == ["resumed"]
    server.job("DELETE", "batch/a")


@pytest.mark.parametrize("comment", ["the night shift", ""])
def test_the_name_of_a_token(start, tmp_path, comment):
    """
    The author of a pause is the comment beside the token in the token file, or else the beginning of the token's hash.
    """
    token = "w" * 40
    (tmp_path / "tokens").write_text(f"write {digest_of(token)}  # {comment}\n")
    server = start("--tokens", str(tmp_path / "tokens"))
    write = {"authorization": f"Bearer {token}"}
    server.job("PUT", "a", FAR, write)
    by = server.job("POST", "a", {}, write, action=":pause").json["job"]["pause"]["by"]
    assert by == (comment or f"token {digest_of(token)[:8]}")
