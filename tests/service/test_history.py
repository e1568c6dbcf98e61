"""
The history of a job page by page: over HTTP, with the library's client and on the command line.
"""

from __future__ import annotations

import json

import pytest

from tickwheel.scheduler import Scheduler

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

TWICE = {"delay": 0, "handler": "fails", "retry": {"attempts": 2, "base_s": 0, "jitter": 0}}
ERROR = "RuntimeError: <script>alert('no')</script>"


def dead(server, key):
    """
    Let the job *key* fail twice, so that it becomes a dead letter, and return its generation.
    """
    with server.live() as live:
        generation = server.job("PUT", key, TWICE).json["job"]["generation"]
        live.firing(key, "died")
    return generation


def history(server, key, query=""):
    """
    Return the records of *key*.
    """
    answer = server.job("GET", key, action=f":history{query}")
    assert answer.status == 200, answer.json
    return answer.json["records"]


def test_the_records_of_a_dead_job(server):
    """
    The history of a dead job has both attempts with their errors, the newest first.

    With the query field `before`, it has only older records.
    """
    generation = dead(server, "kept/of it:history")
    last, first = history(server, "kept/of it:history")
    assert (last["attempt"], last["outcome"], last["error"]) == (2, "died", ERROR)
    assert (first["attempt"], first["outcome"], first["generation"]) == (1, "failed", generation)
    assert last["key"] == "kept/of it:history"
    assert last["traceback"].endswith(f"raise RuntimeError(message)\n{ERROR}")
    assert last["lateness_ms"] >= 0
    assert last["took_ms"] >= 0
    assert last["by"] == server.ask("GET", "/v1/stats").json["owner"]
    assert history(server, "kept/of it:history", "?limit=1") == [last]
    assert history(server, "kept/of it:history", f"?before={last['number']}&limit=5") == [first]
    assert history(server, "kept/of it:history", f"?before={first['number']}") == []
    server.job("DELETE", "kept/of it:history")
    assert len(history(server, "kept/of it:history")) == 2


def test_jobs_without_a_history(server):
    """
    A one-time job that succeeded and a job that never existed have no history.
    """
    with server.live() as live:
        server.job("PUT", "once", {"delay": 0, "handler": "works"})
        live.firing("once", "succeeded")
    assert history(server, "once") == []
    assert history(server, "never") == []


@pytest.mark.parametrize(
    "query", ["?limit=0", "?limit=1001", "?before=0", "?before=x", "?before=99999999999999999", "?a=1"]
)
def test_invalid_queries(server, query):
    """
    An invalid query is refused, and the error names the field.
    """
    answer = server.job("GET", "k", action=f":history{query}")
    assert (answer.status, answer.json["type"]) == (422, "/problems/invalid_value")


def test_by_the_client(server):
    """
    A scheduler that is a client of the service returns the same records as a scheduler that opens the store itself.
    """
    generation = dead(server, "by the client")
    with Scheduler(f"http://{server.host}:{server.port}") as client:
        last, first = client.history("by the client")
        assert client.history("by the client", before=last.number, limit=1) == [first]
    document = history(server, "by the client")[0]
    assert (last.outcome, last.generation, last.attempt) == ("died", generation, 2)
    assert (last.error, last.traceback, last.by) == (document["error"], document["traceback"], document["by"])
    assert last.begun_at - last.due_at == pytest.approx(document["lateness_ms"], abs=0.01)
    server.job("DELETE", "by the client")


def test_everything_by_option(start):
    """
    A service that was started with `--history all` also records successes.
    """
    server = start("--history", "all", "--history-days", "1")
    with server.live() as live:
        server.job("PUT", "once", {"delay": 0, "target": "log"})
        live.firing("once", "succeeded")
    record, act = history(server, "once")
    assert (act["outcome"], act["attempt"]) == ("created", 0)
    assert (record["outcome"], record["error"], record["traceback"]) == ("succeeded", None, None)
    json.dumps(record)
