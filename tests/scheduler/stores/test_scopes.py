"""
Every node on a server's store honours a pause, whichever process set it.
"""

from __future__ import annotations

from tickwheel.observe.events import JobFired
from tickwheel.scheduler import SchedulerOptions, SetRequest
from tickwheel.stores import make_store
from tickwheel.testing.faulty_store import FaultyStore

COUNT = 16
"""Number of jobs of each kind: enough for both nodes to have some."""


def test_two_nodes_honour_the_pauses_of_a_third_process(server_url, make, events, until):
    """
    A third process pauses the jobs of a handler, the jobs of a target, and all jobs.

    Neither node starts paused jobs. The jobs keep their attempts and fire after they are resumed.
    """
    client, stores = make(server_url), [FaultyStore(make_store(server_url)) for _ in range(2)]
    nodes = [make(store, options=SchedulerOptions(owner=f"node {n}")) for n, store in enumerate(stores)]
    told = [events(node) for node in nodes]
    for node in nodes:
        for name in ("mail", "print"):
            node.handler(name)(lambda _: None)
        node.start()
    until(lambda: all(node.stats()["shards"] for node in nodes))

    def fired(kind):
        return [
            [each for each in list(one.items) if isinstance(each, JobFired) and each.key.startswith(kind)]
            for one in told
        ]

    def have_read():  # the second scan since the pause has begun, so the first is complete
        calls = [store.calls.count("scopes") + 2 for store in stores]
        until(lambda: all(store.calls.count("scopes") >= least for store, least in zip(stores, calls, strict=True)))

    def set_some(kind, **route):
        client.set_many([SetRequest(f"{kind} {n}", delay=0, **route) for n in range(COUNT)])

    client.pause_scope("handler:mail", note="smtp is down")
    client.pause_scope("log")
    have_read()
    set_some("mail", handler="mail")
    set_some("log", target="log")
    set_some("print", handler="print")
    until(lambda: sum(map(len, fired("print"))) == COUNT)
    assert all(fired("print"))
    until(lambda: client.stats()["paused"] == 2 * COUNT)

    client.pause_scope("*")
    have_read()
    set_some("later", handler="print")
    until(lambda: client.stats()["paused"] == 3 * COUNT)
    for kind in ("mail", "log", "later"):
        jobs = client.list(kind).jobs
        assert {(job.attempt, job.pause.scope) for job in jobs} == {(0, "*")}
        assert len(jobs) == COUNT
        assert fired(kind) == [[], []]

    for scope in ("*", "log", "handler:mail"):
        assert client.resume_scope(scope)
    for kind in ("mail", "log", "later"):
        until(lambda kind=kind: sum(map(len, fired(kind))) == COUNT)
        assert {each.attempt for one in fired(kind) for each in one} == {1}
    until(lambda: client.stats()["pending"] == 0)
