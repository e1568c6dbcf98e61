"""
Pull workers over HTTP: long polls, late acknowledgements, disconnects, restarts, and a worker without any library.
"""

from __future__ import annotations

import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

WORKER = Path(__file__).parents[2] / "examples" / "pull_worker.py"


def put(server, key, queue, **more):
    """
    In the pull queue *queue*, set a job that is due now, and return its fire id.
    """
    answer = server.job("PUT", key, {"delay": 0, "target": "pull", "handler": queue, **more})
    assert answer.status == 201
    return f"{key}/{answer.json['job']['generation']}/1"


def pull(server, action, **body):
    """
    Send a worker's request for *action*.
    """
    return server.ask("POST", f"/v1/pull:{action}", body)


def lease(server, queue, **more):
    answer = pull(server, "lease", queue=queue, **more)
    assert answer.status == 200, answer.json
    return answer.json["leases"]


def polling(server, queue, wait=60):
    """
    Return a connection on which a worker's long poll is waiting.
    """
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    body = json.dumps({"queue": queue, "wait": wait})
    connection.request("POST", "/v1/pull:lease", body, {"content-type": "application/json"})
    return connection


def test_life_of_a_lease(server):
    """
    A job is leased, extended and acknowledged, and then no longer exists.

    The acknowledgement may be repeated.
    """
    fire_id = put(server, "life", "life", payload={"n": 1}, retry={"attempts": 2})
    (found,) = lease(server, "life", seconds=30)
    assert (found["fire_id"], found["attempt"], found["is_last_attempt"]) == (fire_id, 1, False)
    assert (found["job"]["key"], found["job"]["payload"]) == ("life", {"n": 1})
    assert server.job("GET", "life").json["state"] == "running"
    assert pull(server, "extend", fire_id=fire_id, seconds=90).json["until"] > found["until"]
    assert [pull(server, "ack", fire_id=fire_id).json for _ in range(2)] == [{"outcome": "acknowledged"}] * 2
    assert server.job("GET", "life").status == 404
    late = pull(server, "nack", fire_id=fire_id)
    assert (late.status, late.json["type"]) == (409, "/problems/lease_ended")
    assert "acknowledged" in late.json["detail"]


def test_progress(server):
    """
    The progress that a worker reports is shown with the firing and in the fleet, until the firing ends.
    """
    fire_id = put(server, "far", "far")
    lease(server, "far", seconds=60)
    (firing,) = server.ask("GET", "/v1/firings?key=far").json["firings"]
    assert (firing["outcome"], firing["progress"]) == ("running", None)
    assert pull(server, "extend", fire_id=fire_id, progress=0.4, note="page 12").status == 200
    (firing,) = server.ask("GET", "/v1/firings?key=far").json["firings"]
    assert firing["progress"] == {"fraction": 0.4, "note": "page 12"}
    (node,) = server.ask("GET", "/v1/fleet").json["nodes"]
    seen = {"key": "far", "generation": firing["generation"], "attempt": 1, "fraction": 0.4, "note": "page 12"}
    assert seen in node["figures"]["progress"]
    for body in ({"progress": 1.5}, {"progress": -1}, {"progress": True}, {"note": "alone"}, {"note": "x" * 201}):
        refused = pull(server, "extend", fire_id=fire_id, **body)
        assert (refused.status, refused.json["type"]) == (422, "/problems/invalid_value"), body
    assert pull(server, "ack", fire_id=fire_id).status == 200
    (firing,) = server.ask("GET", "/v1/firings?key=far").json["firings"]
    assert (firing["outcome"], firing["progress"]) == ("succeeded", None)


def test_a_late_acknowledgement(server):
    """
    An acknowledgement that comes too late is refused, with the outcome of the firing.

    The next attempt has a new fire id.
    """
    fire_id = put(server, "late", "late", retry={"base_s": 0, "jitter": 0})
    assert [each["fire_id"] for each in lease(server, "late", seconds=0.1)] == [fire_id]
    (again,) = lease(server, "late")
    assert again["fire_id"] == fire_id[:-1] + "2"
    for action in ("ack", "nack", "extend"):
        answer = pull(server, action, fire_id=fire_id)
        assert (answer.status, answer.json["type"]) == (409, "/problems/lease_ended")
        assert "its time of 0.1 s was over, and it is fired again" in answer.json["detail"]
    assert pull(server, "nack", fire_id=again["fire_id"], is_dead=True, error="no use").status == 200
    assert server.job("GET", "late").json["error"] == "no use"


def test_the_same_lease_again(server):
    """
    If the answer to a lease request is lost, a repeat with the same Idempotency-Key returns the same leases.
    """
    fire_id = put(server, "twice", "twice")
    body, headers = {"queue": "twice"}, {"idempotency-key": "lease-1"}
    answers = [server.ask("POST", "/v1/pull:lease", body, headers).json for _ in range(2)]
    assert answers[0] == answers[1]
    assert [each["fire_id"] for each in answers[0]["leases"]] == [fire_id]


def test_a_worker_that_goes_away(server):
    """
    If a worker disconnects while it waits for a job, the next worker gets the job, which has used no attempt.
    """
    for _ in range(20):
        polling(server, "gone").close()
    fire_id = put(server, "gone", "gone")
    assert [each["fire_id"] for each in lease(server, "gone")] == [fire_id]


def test_too_many_workers_wait(start):
    """
    If too many workers are waiting, the next worker is asked to come back later.
    """
    server = start()
    waiting, answers = [], selectors.DefaultSelector()
    try:
        for _ in range(1000):
            connection = socket.create_connection((server.host, server.port), timeout=30)
            body = b'{"queue":"q","wait":300}'
            kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(f"POST /v1/pull:lease HTTP/1.1\r\nHost: [::1]\r\n{kind}".encode() + body)
            waiting.append(connection)
            answers.register(connection, selectors.EVENT_READ)
        refused = pull(server, "lease", queue="other", wait=0)
        while refused.status == 200:  # repeated until all workers wait
            refused = pull(server, "lease", queue="other", wait=0)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "1000 workers wait already" in refused.json["detail"]
        put(server, "k", "q")
        ((served, _),) = answers.select(30)  # the requests may arrive in any order
        assert served.fileobj.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        answers.close()
        for connection in waiting:
            connection.close()


def test_a_stop_answers_waiting_workers(start, until):
    """
    If SIGTERM arrives while workers wait, each worker gets an empty answer at once, and the process exits cleanly.
    """
    server = start()
    waiting = [polling(server, "q") for _ in range(20)]
    until(lambda: server.ask("GET", "/v1/stats").json["pull"].get("q", {"workers": 0})["workers"] == 20)
    assert server.stop(signal.SIGTERM) == 0
    for connection in waiting:
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)) == (200, {"leases": []})
        connection.close()
    assert not [line for line in server.errors if "Traceback" in line]


def test_a_lease_and_a_restart(start):
    """
    If the service is stopped or killed, a lease ends, and the job fires again as the next attempt.
    """
    first = start()
    fire_id = put(first, "k", "q")
    lease(first, "q")
    assert first.stop(signal.SIGTERM) == 0
    second = start()
    assert pull(second, "ack", fire_id=fire_id).status == 409
    assert [each["fire_id"] for each in lease(second, "q")] == [fire_id[:-1] + "2"]
    second.process.kill()
    second.process.wait()
    third = start()
    (found,) = lease(third, "q")
    assert found["attempt"] == 3
    assert pull(third, "ack", fire_id=found["fire_id"]).status == 200


def test_jobs_without_a_worker_delay_no_others(server):
    """
    Jobs that wait for a worker use no attempt and do not delay other jobs.
    """
    items = [{"do": "set", "key": f"idle/{n}", "delay": 0, "target": "pull", "handler": "idle"} for n in range(2000)]
    assert server.ask("POST", "/v1/jobs:batch", {"items": items}).status == 200
    with server.live() as live:
        server.job("PUT", "beside", {"delay": 0, "handler": "works"})
        live.firing("beside", "succeeded")
    assert server.job("GET", "idle/0").json["attempt"] == 0
    assert server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "idle/"}).json["changed"] == 2000


def test_the_example_of_a_worker(server):
    """
    The example of a worker runs its jobs, and rejects a job that can never succeed.
    """
    environment = os.environ | {"TICKWHEEL_URL": f"http://{server.host}:{server.port}"}
    command = [sys.executable, str(WORKER), "example", "3"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        ended = threading.Timer(60, worker.kill)
        ended.start()
        for number, payload in enumerate(({"to": "Ada"}, "cannot be done", [1, 2])):
            put(server, f"example/{number}", "example", payload=payload)
        out, errors = worker.communicate()
        ended.cancel()
    assert (worker.returncode, errors) == (0, "")
    assert sorted(out.splitlines()) == ["worked on [1, 2]", 'worked on {"to": "Ada"}']
    dead = server.job("GET", "example/1").json
    assert (dead["state"], dead["error"]) == ("dead", "'cannot be done' is not a piece of work")


def test_the_example_without_a_service():
    """
    The example worker tries again if no service answers.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    command = [sys.executable, str(WORKER)]
    environment = os.environ | {"TICKWHEEL_URL": url}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout.readline().startswith("no answer, asking again:")
        worker.kill()
