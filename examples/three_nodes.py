"""
Share jobs among three nodes, kill one of them, and check that no job is lost.

    python examples/three_nodes.py STORE

STORE is a URL of PostgreSQL or Redis, such as postgresql:///jobs or redis://127.0.0.1:6379/0. Each node is a process
that fires the jobs of its shards. When a node dies, its lease (a lock on a shard that expires) runs out, and the other
nodes take over its shards.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from queue import SimpleQueue
from threading import Thread

from tickwheel.scheduler import Scheduler

NODES = 3
JOBS = 90
LEASE = "lease_s=2"


def fire(store: str) -> None:
    """
    Run as a node: print the number of each job that fires, until standard input is closed.
    """
    scheduler = Scheduler(store)

    @scheduler.handler("work")
    def work(number: int) -> None:
        print(f"{number}\n", end="", flush=True)  # a single write, because handlers run in several threads

    with scheduler:
        sys.stdin.read()


def listen(name: str, node: subprocess.Popen[str], fired: SimpleQueue[tuple[str, int]]) -> None:
    """
    Read the numbers of jobs that a node prints, and put them into the queue *fired*.
    """
    assert node.stdout
    for line in node.stdout:
        fired.put((name, int(line)))


def start(store: str) -> subprocess.Popen[str]:
    """
    Start a node in a new process.
    """
    command = [sys.executable, __file__, store, "node"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603  this file


def main(store: str) -> None:
    """
    Start the nodes, set the jobs, and kill the first node when a third of the jobs have fired.
    """
    store += ("&" if "?" in store else "?") + LEASE
    nodes = [start(store) for _ in range(NODES)]
    fired: SimpleQueue[tuple[str, int]] = SimpleQueue()
    for number, node in enumerate(nodes, 1):
        Thread(target=listen, args=(f"node {number}", node, fired), daemon=True).start()

    client = Scheduler(store)  # the client is not started, so it fires no jobs
    while len({shard.owner for shard in client.shards()} - {None}) < NODES:
        time.sleep(0.1)
    for number in range(JOBS):
        client.set(f"job/{number}", delay=0.05 * number, handler="work", payload=number)

    by: dict[int, str] = {}
    killed = False
    while len(by) < JOBS:
        name, number = fired.get()
        by[number] = name  # a job fires twice if its node died while it ran
        if len(by) >= JOBS // NODES and not killed:
            killed = True
            nodes[0].kill()
            print("node 1 is killed")
    print(f"{len(by)} of {JOBS} jobs fired, on {len(Counter(by.values()))} nodes")

    client.stop()
    for node in nodes:
        node.communicate()


if __name__ == "__main__":
    store, *role = sys.argv[1:]
    (fire if role else main)(store)
