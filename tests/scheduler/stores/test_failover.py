"""
After a failover to a standby that lagged behind, no generation or epoch is given out twice.
"""

from __future__ import annotations

import signal

import pytest

from tickwheel.jobs import model
from tickwheel.stores import open_store

LOST = 80
"""Number of writes that the standby lacks.

It exceeds the number of sequence values that PostgreSQL logs in advance."""


class RedisPair:
    """
    Two Redis servers, a primary and its standby. Clients reach the current primary by one socket path.
    """

    def __init__(self, make_redis, until):
        self.primary = make_redis()
        self.standby = make_redis("--replicaof", f"127.0.0.1 {self.primary.port}")
        self.socket = self.standby.folder / "leads"
        self.socket.symlink_to(self.primary.folder / "socket")
        self.url = f"unix://{self.socket}?"
        until(lambda: self.standby.execute("INFO", "replication")["master_link_status"] == "up")

    def has_all(self):
        """
        Return True if the standby has received all writes of the primary.
        """
        facts = [server.execute("INFO", "replication") for server in (self.primary, self.standby)]
        return facts[0]["master_repl_offset"] == facts[1]["master_repl_offset"]

    def detach(self):
        """
        Disconnect the standby from the primary.
        """
        self.standby.execute("REPLICAOF", "127.0.0.1", "1")

    def fail_over(self):
        """
        Stop the primary and promote the standby.
        """
        self.primary.stop(signal.SIGKILL)
        self.standby.execute("REPLICAOF", "NO", "ONE")
        self.socket.unlink()
        self.socket.symlink_to(self.standby.folder / "socket")


@pytest.fixture(params=["postgres", "redis"])
def pair(request, until):
    """
    Return a primary and its standby, for each kind of store.
    """
    if request.param == "redis":
        return RedisPair(request.getfixturevalue("make_redis"), until)
    return request.getfixturevalue("postgres_pair")


def write(store, name, count, until):
    """
    Set *count* jobs, each in its own commit, and return their generations.
    """
    return [
        until(lambda i=i: store.apply([model.Set(model.Job(f"{name} {i}", 0, 5))])[0].job.generation)
        for i in range(count)
    ]


def test_no_number_is_given_out_twice(pair, until):
    """
    Generations and epochs that only the lost primary knew are not given out again.

    Leases that only the lost primary knew are no longer valid.
    """
    store = open_store(f"{pair.url}shards=3")
    epochs = [lease.epoch for lease in store.acquire("first")]
    generations = write(store, "kept", 5, until)
    until(pair.has_all)
    pair.detach()
    for owner in ("second", "third"):
        store.release("first" if owner == "second" else "second")
        epochs += [lease.epoch for lease in store.acquire(owner)]
    generations += write(store, "lost", LOST, until)
    pair.fail_over()
    generations += write(store, "new", LOST, until)
    assert len(set(generations)) == len(generations) == 5 + 2 * LOST
    assert store.get("kept 0").generation == generations[0]
    assert store.get("lost 0") is None
    assert store.renew("first") == []
    # after a long silence the first calls may get nothing
    later = [lease.epoch for lease in until(lambda: store.acquire("third"))]
    assert min(later) > max(epochs)
    store.close()
