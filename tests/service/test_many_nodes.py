"""
Pull workers, and three nodes on one store.

A worker may send each request to any node.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwheel.scheduler import AsyncScheduler, Scheduler, UnsupportedError

LEASE_S = 2
SHARDS = 6
JOBS = 30


def ask(node, action, **body):
    """
    Send a worker's request for *action* to *node*.
    """
    return node.ask("POST", f"/v1/pull:{action}", body)


@pytest.fixture
def nodes(start, tmp_path, server_url):
    """
    Return three nodes that share the shards of one store.
    """
    started = []
    for name in ("a", "b", "c"):
        (folder := tmp_path / name).mkdir()
        store = f"{server_url}&shards={SHARDS}&lease_s={LEASE_S}"
        started.append(start(folder=folder, environment={"TICKWHEEL_STORE": store}))
    return started


def have_shared(nodes):
    """
    Return True if each of *nodes* owns shards and has announced its service.
    """
    fleet = nodes[0].ask("GET", "/v1/fleet").json
    known = [node["figures"] for node in fleet["nodes"] if node["state"] == "well" and node["shards"]]
    return len(known) == len(nodes) and all(known)


def fill(node, queue, **more):
    """
    Set jobs that are due now, some of them in each shard.
    """
    items = [
        {"do": "set", "key": f"{queue}/{number}", "delay": 0, "target": "pull", "handler": queue, **more}
        for number in range(JOBS)
    ]
    answer = node.ask("POST", "/v1/jobs:batch", {"items": items})
    assert answer.status == 200, answer.json


def test_workers_at_any_node(nodes, until):
    """
    If a worker sends each request to a different node, as behind a load balancer, each job runs once.

    No acknowledgement is refused.
    """
    until(lambda: have_shared(nodes))
    fill(nodes[0], "once")
    turn, lock = itertools.cycle(nodes), threading.Lock()
    runs, ends = Counter(), Counter()

    def send(action, **body):
        with lock:
            node = next(turn)
        return ask(node, action, **body)

    def work(_number):
        while sum(runs.values()) < JOBS:
            answer = send("lease", queue="once", wait=2, seconds=20)
            assert answer.status == 200, answer.json
            for lease in answer.json["leases"]:
                with lock:
                    runs[lease["job"]["key"]] += 1
                ends[send("extend", fire_id=lease["fire_id"], seconds=30, progress=0.5).status] += 1
                ends[send("ack", fire_id=lease["fire_id"]).status] += 1

    with ThreadPoolExecutor(3) as workers:
        list(workers.map(work, range(3)))
    assert (len(runs), set(runs.values()), ends) == (JOBS, {1}, {200: 2 * JOBS})
    until(lambda: not nodes[1].ask("GET", "/v1/jobs?prefix=once/").json["jobs"])


def test_one_worker_at_one_node(nodes, until):
    """
    A worker that uses a single node gets the jobs of all shards, but never more at a time than it asked for.
    """
    until(lambda: have_shared(nodes))
    fill(nodes[0], "all")
    found = Counter()
    while len(found) < JOBS:
        answer = ask(nodes[1], "lease", queue="all", limit=4, wait=20, seconds=20).json["leases"]
        assert 1 <= len(answer) <= 4, found
        for lease in answer:
            found[lease["job"]["key"], lease["attempt"]] += 1
            assert ask(nodes[1], "ack", fire_id=lease["fire_id"]).status == 200
    assert found == {(f"all/{number}", 1): 1 for number in range(JOBS)}, "none twice, and no attempt used up"


def test_every_worker_request_at_every_node(nodes, until):
    """
    A worker can acknowledge, reject, release and extend a lease at any node, and gets the same answer from each.
    """
    until(lambda: have_shared(nodes))
    a, b, c = nodes
    a.job("PUT", "k", {"delay": 0, "target": "pull", "handler": "ends", "retry": {"attempts": 3}})
    (first,) = ask(a, "lease", queue="ends", seconds=60).json["leases"]
    assert ask(b, "release", fire_id=first["fire_id"]).json == {"outcome": "released"}
    assert ask(c, "release", fire_id=first["fire_id"]).json == {"outcome": "released"}, "repeated"
    (again,) = ask(b, "lease", queue="ends", seconds=60).json["leases"]
    assert again["attempt"] == first["attempt"], "a release uses up no attempt"
    assert ask(c, "nack", fire_id=again["fire_id"], delay=0, error="cold").json == {"outcome": "refused"}
    (last,) = ask(c, "lease", queue="ends", seconds=60).json["leases"]
    assert last["attempt"] == first["attempt"] + 1
    refused = [node.ask("POST", "/v1/pull:nack", {"fire_id": again["fire_id"]}) for node in nodes]
    assert [answer.status for answer in refused] == [200, 200, 200], "repeated: answered as the first time"
    late = [ask(node, "ack", fire_id=again["fire_id"]) for node in nodes]
    assert [(answer.status, answer.json["type"]) for answer in late] == [(409, "/problems/lease_ended")] * 3
    assert all("refused" in answer.json["detail"] for answer in late), "each node knows what became of it"
    assert {ask(node, "extend", fire_id=last["fire_id"], seconds=60).status for node in nodes} == {200}
    assert [ask(node, "ack", fire_id=last["fire_id"]).status for node in nodes] == [200, 200, 200]


def test_a_node_that_is_gone(nodes, until):
    """
    If a node dies, the leases that it has granted end, and other workers get the jobs again.
    """
    until(lambda: have_shared(nodes))
    fill(nodes[2], "gone", retry={"attempts": 2})
    held = {}
    for node in (*nodes, *nodes):
        for lease in ask(node, "lease", queue="gone", limit=JOBS, wait=1, seconds=600).json["leases"]:
            held[lease["job"]["key"]] = lease["fire_id"]
    assert len(held) == JOBS
    nodes[0].stop(signal.SIGKILL)
    statuses = Counter(ask(nodes[1], "ack", fire_id=fire_id).status for fire_id in held.values())
    assert set(statuses) == {200, 409}
    left = statuses[409]
    while left:
        for lease in ask(nodes[2], "lease", queue="gone", limit=JOBS, wait=20, seconds=60).json["leases"]:
            assert (lease["attempt"], ask(nodes[1], "ack", fire_id=lease["fire_id"]).status) == (2, 200)
            left -= 1
    until(lambda: not nodes[1].ask("GET", "/v1/jobs?prefix=gone/").json["jobs"])


def test_a_client_with_handlers(nodes, until):
    """
    A Python client of one node runs the jobs of all shards, each job once.
    """
    pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")
    until(lambda: have_shared(nodes))
    attempts = Counter()
    client = Scheduler(f"http://{nodes[1].host}:{nodes[1].port}")

    @client.handler("python")
    def run(payload, firing):
        attempts[payload, firing.attempt] += 1

    with client:
        for number in range(JOBS):
            client.set(f"python/{number}", delay=0, target="pull", handler="python", payload=number)
        until(lambda: not client.list("python/").jobs)
    assert attempts == {(number, 1): 1 for number in range(JOBS)}


def test_firings_at_each_node(nodes, until):
    """
    At each node, the stream and the list contain the firings of all nodes or, on request, only its own.
    """
    until(lambda: have_shared(nodes))
    keys = {f"seen/{number}" for number in range(JOBS)}
    with nodes[0].live() as first, nodes[1].live() as second, nodes[2].live({"accept": "*/*"}) as third:
        items = [{"do": "set", "key": key, "delay": 0, "target": "log"} for key in keys]
        assert nodes[0].ask("POST", "/v1/jobs:batch", {"items": items}).status == 200
        for stream in (first, second, third):
            seen = {}
            while seen.keys() < keys:
                name, data = stream.event()
                for firing in data["firings"] if name == "firings" else ():
                    seen[firing["key"]] = firing["by"]
            assert len(set(seen.values())) > 1, "they were fired by several nodes"
    own = []
    for node in nodes:
        listed = until(lambda node=node: listed_at(node, keys))
        assert [each["outcome"] for each in listed] == ["succeeded"] * JOBS
        assert listed == sorted(listed, key=lambda each: each["fired_at"])
        own += node.ask("GET", "/v1/firings?nodes=this&limit=500").json["firings"]
    assert Counter(each["key"] for each in own) == Counter(keys)
    nodes[2].stop(signal.SIGKILL)
    assert nodes[0].ask("GET", "/v1/firings").status == 200
    assert nodes[0].ask("GET", "/v1/firings?nodes=some").status == 422


def listed_at(node, keys):
    """
    Wait until the list of firings at *node* has all *keys*, and return these firings.
    """
    found = node.ask("GET", "/v1/firings?limit=500").json["firings"]
    return found if {each["key"] for each in found} == keys else None


def test_requests_between_nodes_from_other_clients(nodes):
    """
    A request of the protocol between nodes is refused if it does not come from a node.
    """
    answer = nodes[0].ask("POST", "/internal/pull", {"verb": "ack", "body": {"fire_id": "k/1/1"}})
    assert (answer.status, answer.json["type"]) == (404, "/problems/page_not_found")
    answer = nodes[0].ask("POST", "/internal/pull", {}, {"tickwheel-secret": "guess"})
    assert answer.status == 404
    assert nodes[0].ask("GET", "/internal/pull").status == 404
    answer = nodes[0].ask("POST", "/internal/firings", {"after": 0}, {"tickwheel-secret": "guess"})
    assert (answer.status, answer.json["type"]) == (404, "/problems/page_not_found")
    assert b"secret" not in nodes[0].ask("GET", "/v1/fleet").body


def test_a_client_advertises_nothing():
    """
    A scheduler that is a client of a service cannot announce a service to other nodes.
    """
    for face in (Scheduler, AsyncScheduler):
        with pytest.raises(UnsupportedError, match="client of a service"):
            face("http://127.0.0.1:9").advertise("http://127.0.0.1:8", "s")
