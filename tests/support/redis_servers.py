"""
Redis for tests and proofs: one server, a cluster, and a primary that sentinels watch.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import time

from processes import PATIENCE_S, find, free_port, wait_until_up

MASTERS = 3
NUMBERS = itertools.count()


class Redis:
    """
    A server in a folder.

    It is reached through a Unix socket there, or a free port of the loopback.
    """

    def __init__(self, folder, *settings):
        self.folder = folder
        self.settings = settings
        self.port = free_port()
        self._process = None

    def start(self):
        """
        Start the server, and wait until it answers.
        """
        own = ("--dir", self.folder, "--unixsocket", self.folder / "socket", "--bind", "127.0.0.1", "--port", self.port)
        with (self.folder / "log").open("ab") as log:
            (self.folder / "settings").touch()  # a sentinel stores its state there
            command = [find("redis-server"), self.folder / "settings", *own, "--save", "", *self.settings]
            self._process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
        wait_until_up(self._process, self.folder / "log", self._answers)

    def stop(self, how=signal.SIGTERM):
        """
        Stop the server.

        SIGTERM is a clean end. SIGKILL is a crash.
        """
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def _answers(self):
        import redis  # noqa: PLC0415 - only where there is a server

        try:
            return bool(self.execute("PING"))
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False

    def execute(self, *command, database=0, **account):
        """
        Execute *command*, and return the reply.
        """
        import redis  # noqa: PLC0415 - only where there is a server

        with redis.Redis(port=self.port, db=database, **account) as client:
            return client.execute_command(*command)

    def url(self, options="", account=""):
        return f"redis://{account}127.0.0.1:{self.port}/0{options}"

    def empty_url(self, options=""):
        """
        Return the URL of an empty store with an unused prefix.

        *options* must begin with `&`.
        """
        return self.url(f"?prefix=empty-{next(NUMBERS)}{options}")


class RedisCluster:
    """
    Three masters with *replicas* replicas each.
    """

    def __init__(self, make_redis, *settings, replicas=1):
        self._replicas = replicas
        own = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
        self.lost = None
        fast = ("--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0")
        self.nodes = [
            make_redis(*own, *fast, "--cluster-port", free_port(), *settings) for _ in range((1 + replicas) * MASTERS)
        ]
        hosts = [f"127.0.0.1:{node.port}" for node in self.nodes]
        command = ["redis-cli", "--cluster", "create", *hosts, "--cluster-replicas", f"{replicas}", "--cluster-yes"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
        wait_for(lambda: all(self._is_whole(node) for node in self.nodes))
        self.url = f"redis+cluster://{','.join(hosts)}?"

    def holder(self, prefix="tickwheel"):
        """
        Return the master that holds the slot of the store with *prefix*, according to the running masters.
        """
        asked = self._running()
        slot = asked.execute("CLUSTER", "KEYSLOT", f"{{{prefix}}}")
        ports = [master[1] for first, last, master, *_ in asked.execute("CLUSTER", "SLOTS") if first <= slot <= last]
        return next(node for node in self.nodes if node.port in ports)

    def masters(self):
        """
        Return the masters, according to the running servers.
        """
        ports = [master[1] for _, _, master, *_ in self._running().execute("CLUSTER", "SLOTS")]
        return [node for node in self.nodes if node.port in ports]

    def begin_move(self, slot, source, target):
        """
        Begin to move *slot* from one master to another, as an operator does.
        """
        target.execute("CLUSTER", "SETSLOT", slot, "IMPORTING", source.execute("CLUSTER", "MYID"))
        source.execute("CLUSTER", "SETSLOT", slot, "MIGRATING", target.execute("CLUSTER", "MYID"))

    def move_keys(self, slot, source, target, most):
        """
        Move at most *most* keys of *slot*, one by one.

        Return True if there were any keys.
        """
        names = source.execute("CLUSTER", "GETKEYSINSLOT", slot, most)
        for name in names:
            source.execute("MIGRATE", "127.0.0.1", target.port, name, 0, 60_000)
        return bool(names)

    def end_move(self, slot, source, target):
        """
        Move the remaining keys of *slot*, and inform all masters.
        """
        while self.move_keys(slot, source, target, 10):
            pass
        for node in (target, source, *self.masters()):
            node.execute("CLUSTER", "SETSLOT", slot, "NODE", target.execute("CLUSTER", "MYID"))

    def fail_over(self, *, is_replicated=False):
        """
        Kill the master that holds the store. Its replica takes over.

        If *is_replicated*, wait first until the replica has all data.
        """
        self.lost = self.holder()
        if is_replicated:
            await_replicas(self.lost)
        self.lost.stop(signal.SIGKILL)

    def await_successor(self):
        """
        Wait until the other masters know the new master.
        """
        wait_for(lambda: self.holder() is not self.lost)

    def stop(self):
        for node in self.nodes:
            node.stop(signal.SIGKILL)

    def _running(self):
        return next(node for node in self.nodes if node is not self.lost)

    def _is_whole(self, node):
        facts, linked = node.execute("CLUSTER", "INFO"), node.execute("INFO", "replication")
        is_linked = (
            linked["connected_slaves"] == self._replicas
            if linked["role"] == "master"
            else linked["master_link_status"] == "up"
        )
        return is_linked and b"cluster_state:ok" in facts and b"cluster_known_nodes:%d" % len(self.nodes) in facts


class RedisSentinels:
    """
    A primary, its replica, and three sentinels that promote the replica when the primary is lost.
    """

    def __init__(self, make_redis, *settings):
        self.primary = make_redis(*settings)
        replica_of = ("--replicaof", f"127.0.0.1 {self.primary.port}", "--repl-diskless-sync-delay", "0")
        self.replica = make_redis(*replica_of, *settings)
        wait_for(lambda: self.replica.execute("INFO", "replication")["master_link_status"] == "up")
        self.sentinels = [make_redis("--sentinel") for _ in range(3)]
        for each in self.sentinels:
            each.execute("SENTINEL", "MONITOR", "jobs", "127.0.0.1", self.primary.port, 2)
            each.execute("SENTINEL", "SET", "jobs", "down-after-milliseconds", 500, "failover-timeout", 2000)
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        self.url = f"redis+sentinel://{hosts}/0?master=jobs&"
        wait_for(lambda: all(self._sees_all(each) for each in self.sentinels))

    def fail_over(self, *, is_replicated=False):
        """
        Kill the primary. The sentinels promote its replica.

        If *is_replicated*, wait first until the replica has all data.
        """
        if is_replicated:
            await_replicas(self.primary)
        self.primary.stop(signal.SIGKILL)

    def await_successor(self):
        """
        Wait until the replica has taken over.
        """
        wait_for(lambda: self.replica.execute("INFO", "replication")["role"] == "master")

    def stop(self):
        for node in (self.primary, self.replica, *self.sentinels):
            node.stop(signal.SIGKILL)

    def _sees_all(self, sentinel):
        facts = sentinel.execute("INFO", "sentinel")["master0"]
        return (facts["slaves"], facts["sentinels"]) == (1, 3)


def await_replicas(primary):
    """
    Wait until a replica has the current data of *primary*.
    """
    offset = primary.execute("INFO", "replication")["master_repl_offset"]
    wait_for(lambda: primary.execute("INFO", "replication")["slave0"]["offset"] >= offset)


def wait_for(is_so):
    """
    Wait until `is_so()` is true.

    Polling is needed, because no signal reports that servers have found each other.
    """
    give_up = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.02)
