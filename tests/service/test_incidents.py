"""
Dead letters grouped into incidents, over HTTP and through a scheduler that is a client of the service.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tickwheel.scheduler import InvalidJobError, Scheduler

DEAD = {"delay": 0, "handler": "fails", "retry": {"attempts": 1}}


@pytest.fixture
def letters(server):
    """
    Return the keys of four dead letters.
    """
    keys = [f"broken/{n}" for n in range(3)] + ["other/1"]
    with server.live() as live:
        for key in keys:
            assert server.job("PUT", key, DEAD).status == 201
            live.firing(key, "died")
    yield keys
    for key in keys:
        server.job("DELETE", key)


def test_incidents(server, letters):
    """
    Dead letters with the same error form one incident, and query fields restrict the list of incidents.
    """
    document = server.ask("GET", "/v1/incidents").json
    (incident,) = document["incidents"]
    assert incident["errors"] == len({server.job("GET", key).json["error"] for key in letters})
    assert (incident["count"], document["looked_at"], document["is_all"]) == (4, 4, True)
    assert "RuntimeError" in incident["error"]
    assert incident["places"] == [{"target": "handler", "handler": "fails", "count": 4}]
    assert sum(incident["by_hour"]) == 4
    assert incident["first_at"] <= incident["last_at"]
    assert incident["keys"] == letters[:0:-1]
    (under,) = server.ask("GET", "/v1/incidents?prefix=broken/&keys=2").json["incidents"]
    assert (under["count"], under["keys"], under["fingerprint"]) == (3, letters[2:0:-1], incident["fingerprint"])
    (found,) = server.ask("GET", "/v1/incidents?search=OTHER").json["incidents"]
    assert found["keys"] == ["other/1"]
    assert server.ask("GET", f"/v1/incidents?fingerprint={'0' * 16}").json["incidents"] == []


@pytest.mark.parametrize(
    "query",
    [
        "keys=0",
        "keys=10001",
        "keys=x",
        "search=a&search=b",
        "searched=x",
        "fingerprint=x",
        pytest.param("search=" + "x" * 513, id="long search"),
    ],
)
def test_bad_query(server, query):
    """
    An invalid query is refused, and the error names the field.
    """
    answer = server.ask("GET", f"/v1/incidents?{query}")
    assert answer.status == 422
    assert answer.json["remedy"]


def test_replays_in_a_batch_can_be_spread(server, letters):
    """
    The replays of an incident in a batch can have different due times.
    """
    items = [{"do": "replay", "key": key, "delay": 3600 + 10 * number} for number, key in enumerate(letters)]
    results = server.ask("POST", "/v1/jobs:batch", {"items": items}).json["results"]
    assert [result["outcome"] for result in results] == ["replayed"] * 4
    for number, key in enumerate(letters):
        job = server.job("GET", key).json
        assert job["state"] == "pending"
        late_s = (datetime.fromisoformat(job["due_at"]) - datetime.now(UTC)).total_seconds()
        assert 3500 < late_s - 10 * number < 3700
    assert server.ask("GET", "/v1/incidents").json["incidents"] == []


def test_through_a_scheduler(server, letters):
    """
    A scheduler that is a client of the service returns the incidents with all their keys.

    It can replay an incident at a limited rate.
    """
    scheduler = Scheduler(f"http://{server.host}:{server.port}")
    try:
        (incident,) = scheduler.incidents("broken/").incidents
        assert set(incident.keys) == set(letters[:3])
        assert (incident.count, incident.places) == (3, (("handler", "fails", 3),))
        answers = scheduler.replay_many(incident.keys, rate=0.01)
        dues = [answer.job.due_at for answer in answers if answer.job is not None]
        assert [round(due - dues[0], -3) for due in dues] == [0, 100_000, 200_000]
        with pytest.raises(InvalidJobError, match="rate"):
            scheduler.replay_many(incident.keys, rate=0)
    finally:
        scheduler.stop()


def test_latest_first(server, letters):
    """
    A list of dead letters can show the latest first. This order cannot be combined with most other query fields.
    """

    def keys(query):
        return [job["key"] for job in server.ask("GET", f"/v1/jobs?order=latest&{query}").json["jobs"]]

    assert keys("") == letters[::-1]
    assert keys("state=dead&limit=2") == letters[:1:-1]
    assert keys("prefix=broken/") == [key for key in letters[::-1] if key.startswith("broken/")]
    (job,) = server.ask("GET", "/v1/jobs?order=latest&limit=1").json["jobs"]
    assert job == server.job("GET", letters[-1]).json
    for query in ("state=pending", "contains=a", "due_from=0", "cursor=a"):
        assert server.ask("GET", f"/v1/jobs?order=latest&{query}").status == 422, query
