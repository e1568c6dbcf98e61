"""
Two PostgreSQL servers that Patroni manages with etcd.

One server leads, and each of its commits waits for the other server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

from processes import find, free_port, given_to_nobody
from redis_servers import wait_for

LEAST = {"ttl": 20, "loop_wait": 1, "retry_timeout": 3}
"""
The shortest time limits that Patroni's documentation allows.

With them, the successor of a lost leader takes over after 20 s.
"""
TRUSTED = ("local all all", "host all all 127.0.0.1/32", "host replication all 127.0.0.1/32")


class PatroniGroup:
    """
    One etcd and two nodes in a folder.

    They use free ports of the loopback.
    """

    def __init__(self, folder):
        self.folder = folder
        self._as = given_to_nobody(folder)
        self._processes = {}
        self._etcd = f"127.0.0.1:{free_port()}"
        self._ports = {name: free_port() for name in ("one", "two")}
        self._apis = {name: f"127.0.0.1:{free_port()}" for name in self._ports}
        hosts, ports = ",".join("127.0.0.1" for _ in self._ports), ",".join(map(str, self._ports.values()))
        self.url = f"postgresql:///postgres?host={hosts}&port={ports}&user=tick&target_session_attrs=read-write&"

    def start(self):
        """
        Start all processes, and wait until one node leads and the other follows correctly.
        """
        peers, clients = f"http://127.0.0.1:{free_port()}", f"http://{self._etcd}"
        etcd = ("etcd", "--data-dir", "etcd", "--initial-cluster", f"default={peers}")
        etcd += ("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers)
        self._run("etcd", *etcd, "--listen-client-urls", clients, "--advertise-client-urls", clients)
        for name in self._ports:
            (self.folder / f"{name}.json").write_text(json.dumps(self._settings(name)))
            self._run(name, "patroni", f"{name}.json")
        self.await_standby()

    def pair(self):
        """
        Return the leader and its possible successor, if all running nodes agree.

        An unknown node is None.
        """
        for name, process in self._processes.items():
            assert process.poll() is None, (self.folder / f"{name}.log").read_text()
        seen = {self._seen_by(name) for name in self._processes if name in self._ports}
        return seen.pop() if len(seen) == 1 else (None, None)

    def await_standby(self):
        """
        Wait until there are a leader and a possible successor. Return both.
        """
        pairs = [self.pair()]
        wait_for(lambda: all(pairs[-1]) or pairs.append(self.pair()))
        return pairs[-1]

    def switch_over(self):
        """
        Make the other node the leader, as an operator does before maintenance.
        """
        leader, standby = self.await_standby()
        body = json.dumps({"leader": leader, "candidate": standby}).encode()
        with urllib.request.urlopen(f"http://{self._apis[leader]}/switchover", body, timeout=60) as answer:
            assert answer.status == 200, answer.read()
        wait_for(lambda: self.pair()[0] == standby)

    def lose_leader(self):
        """
        Kill the leader while commits wait for the other node. Wait until the other node leads.

        An acknowledged write is lost if the other node had not received it.
        """
        leader, standby = self.await_standby()
        ((receiver,),) = self._execute(standby, "SELECT pid FROM pg_stat_wal_receiver")
        os.kill(receiver, signal.SIGSTOP)
        wait_for(lambda: self._execute(leader, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
        self._kill(leader)
        os.kill(receiver, signal.SIGKILL)  # this loses the data in its socket, too
        wait_for(lambda: self.pair()[0] == standby)

    def stop(self):
        """
        Kill all processes.

        Their files are deleted with the folder.
        """
        for name in list(self._processes):
            self._kill(name)

    def _run(self, name, *command):
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env={"PATH": os.environ["PATH"]}, **self._as
            )

    def _settings(self, name):
        address = {"listen": (place := f"127.0.0.1:{self._ports[name]}"), "connect_address": place}
        return {
            "scope": "jobs",
            "name": name,
            "etcd3": {"host": self._etcd},
            "restapi": {"listen": self._apis[name], "connect_address": self._apis[name]},
            "bootstrap": {
                "dcs": {**LEAST, "synchronous_mode": True},
                "initdb": ["no-sync", "no-locale", {"encoding": "UTF8"}, {"auth": "trust"}],
            },
            "postgresql": {
                **address,
                "data_dir": str(self.folder / name),
                "bin_dir": str(Path(find("initdb")).resolve().parent),
                "pgpass": str(self.folder / f"{name}.pgpass"),
                "pg_hba": [f"{rule} trust" for rule in TRUSTED],
                "authentication": {"superuser": {"username": "tick"}, "replication": {"username": "tick"}},
                "parameters": {"unix_socket_directories": str(self.folder)},
            },
        }

    def _execute(self, name, statement):
        import psycopg  # noqa: PLC0415 - only where there is a server

        with psycopg.connect(host="127.0.0.1", port=self._ports[name], user="tick", dbname="postgres") as connection:
            return connection.execute(statement).fetchall()

    def _seen_by(self, name):
        members = []
        with suppress(OSError), urllib.request.urlopen(f"http://{self._apis[name]}/cluster", timeout=5) as answer:
            members = json.load(answer)["members"]
        running = {"running", "streaming"}  # states of a standby; "streaming" since Patroni 3.1
        names = {each["role"]: each["name"] for each in members if each["state"] in running}
        return names.get("leader"), names.get("sync_standby")

    def _kill(self, name):
        """
        Kill the process *name* by SIGKILL.

        If it is a node, kill its server with all sessions, too.
        """
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        with suppress(FileNotFoundError, ProcessLookupError):
            postmaster = int((self.folder / name / "postmaster.pid").read_text().split()[0])
            os.kill(postmaster, signal.SIGSTOP)  # so that it neither starts nor ends sessions while they are listed
            sessions = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
            for each in (*map(int, sessions), postmaster):
                os.kill(each, signal.SIGKILL)
