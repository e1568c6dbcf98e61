"""
The command `doctor` on real servers, each with one fault.
"""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
from redis_servers import RedisCluster

from tickwheel.cli import doctor
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Job
from tickwheel.scheduler import Scheduler
from tickwheel.stores import Node, open_store
from tickwheel.stores.postgres import _examine
from tickwheel.stores.redis import _examine as redis_examine

ROWS = 12_000


def found(url):
    """
    Return the doctor's findings about the server of *url*, by the name of the check.

    Each finding is a pair: whether the check has passed, and its text.
    """
    return {check: (is_well, text) for check, is_well, text in doctor.server_findings(url)}


def is_wrong(url, check, words):
    """
    Return True if *check* has failed, and its text contains *words* and a remedy after a colon.
    """
    is_well, text = found(url).get(check, (True, ""))
    return not is_well and words in text and ": " in text


@pytest.fixture
def jobs_url(postgres, database):
    """
    Return the URL of a PostgreSQL store whose table of jobs has no autovacuum.
    """
    url = postgres.url(database)
    with closing(open_store(url)) as store:
        store.open()
    postgres.execute("ALTER TABLE tickwheel_job SET (autovacuum_enabled = false)", database)
    return url


def write(postgres, database, statement):
    """
    Execute *statement*, and update the server's statistics at once.
    """
    postgres.execute(f"{statement}; SELECT pg_stat_force_next_flush()", database)


FILL = """INSERT INTO tickwheel_job
    (key, generation, due_at, payload, target, handler, attempt, state, first_set_at, shard)
    SELECT i::text, i, i, '', 'handler', 'h', 0, 0, 0, 0 FROM generate_series(1, 12000) AS i"""


def test_a_sound_server(jobs_url):
    """
    A healthy server passes every check.
    """
    checks = found(jobs_url)
    assert all(is_well for is_well, _ in checks.values()), checks
    assert {"replication", "pooler", "statistics", "bloat", "long transaction"} <= checks.keys()


def test_statistics_and_dead_rows(postgres, database, jobs_url, monkeypatch):
    """
    Missing or old statistics, and too many dead rows, are reported.

    After the remedy was applied, they are not reported any more.
    """
    write(postgres, database, FILL)
    assert is_wrong(jobs_url, "statistics", f"tickwheel_job has {ROWS} rows and was never analysed")
    postgres.execute("ANALYZE tickwheel_job", database)
    assert found(jobs_url)["statistics"][0]
    for _ in range(2):
        write(postgres, database, "UPDATE tickwheel_job SET attempt = attempt + 1")
    assert is_wrong(jobs_url, "statistics", f"{2 * ROWS} rows of tickwheel_job changed")
    assert found(jobs_url)["bloat"][0]
    monkeypatch.setattr(_examine, "DEAD_MAX", ROWS // 2)
    write(postgres, database, "DELETE FROM tickwheel_job WHERE due_at > 1200")
    assert is_wrong(jobs_url, "bloat", "dead rows beside 1200: ")
    postgres.execute("VACUUM ANALYZE tickwheel_job", database)
    assert found(jobs_url)["statistics"][0]
    assert found(jobs_url)["bloat"][0]


def test_a_long_transaction(postgres, database, jobs_url, monkeypatch):
    """
    A session that stays in a transaction for long is reported with its process.
    """
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setattr(_examine, "LONG_S", 0)
    with psycopg.connect(host=str(postgres.folder), user="tick", dbname=database) as session:
        session.execute("SELECT 1")
        assert is_wrong(jobs_url, "long transaction", f"the session {session.info.backend_pid} of tick")
    assert found(jobs_url)["long transaction"] == (True, "none")


def test_poolers(database, make_pgbouncer, jobs_url):
    """
    If a pooler is used and the URL does not say so, the doctor reports it.
    """
    pooler = make_pgbouncer("ignore_startup_parameters = options").url(database)
    with pytest.raises(StoreError, match="pooler=transaction"):
        found(pooler)
    assert found(f"{pooler}&pooler=transaction")["pooler"] == (True, "in between, and the URL has pooler=transaction")
    assert found(f"{jobs_url}&pooler=transaction")["pooler"][1].startswith("none in between: without")
    assert not _examine.pooler_finding(is_between=True, is_pooled=False).is_well


def test_replication(postgres_pair, until, monkeypatch):
    """
    The doctor names the standbys that must confirm each commit. It reports other standbys and unused slots.
    """
    primary, standby = postgres_pair.primary, postgres_pair.standby
    url = primary.url("postgres")

    def alter(setting):
        primary.execute(f"ALTER SYSTEM SET {setting}")
        primary.execute("SELECT pg_reload_conf()")

    until(lambda: is_wrong(url, "replication", "no answer waits for standby"))
    assert is_wrong(standby.url("postgres"), "replication", "this server is a standby")
    alter("synchronous_standby_names = '*'")
    until(lambda: found(url)["replication"] == (True, "every answer waits for standby: a failover to it loses nothing"))
    monkeypatch.setattr(_examine, "LAG_MAX", 0)
    standby.execute("SELECT pg_wal_replay_pause()")
    primary.execute("CREATE TABLE more AS SELECT 1")
    until(lambda: is_wrong(url, "standby", "standby has yet to replay 0 MiB"))
    standby.execute("SELECT pg_wal_replay_resume()")
    until(lambda: "standby" not in found(url))
    alter("autovacuum = off")
    until(lambda: is_wrong(url, "autovacuum", "is off"))
    primary.execute("SELECT pg_create_physical_replication_slot('left', true)")
    assert is_wrong(url, "replication slot", "'left' keeps")
    standby.stop()
    until(lambda: is_wrong(url, "replication", "no standby of synchronous_standby_names = '*' streams"))


def test_replicas(make_redis, until):
    """
    The doctor says how many replicas the server requires for a write, and whether writes are refused because of this.
    """
    server = make_redis()
    assert all(is_well for is_well, _ in found(server.url()).values())
    assert is_wrong(server.url("?replicas=1"), "replication", "no write is answered")
    replicas = [make_redis("--replicaof", f"127.0.0.1 {server.port}") for _ in range(2)]

    def are_there(count):
        return server.execute("INFO", "replication")["connected_slaves"] == count

    until(lambda: are_there(2))
    assert is_wrong(server.url(), "replication", "no answer waits for any of 2 replicas")
    assert found(server.url("?replicas=1"))["replication"][0]
    assert is_wrong(server.url("?replicas=2"), "replication", "leaves too few")
    assert is_wrong(server.url("?replicas=3"), "replication", "and there is 2 replicas")
    assert is_wrong(replicas[0].url(), "replication", f"name its master, 127.0.0.1:{server.port}")
    replicas[1].stop()
    until(lambda: are_there(1))
    assert is_wrong(server.url("?replicas=1"), "replication", "leaves too few")
    assert "min-replicas-to-write" not in found(server.url())
    server.execute("CONFIG", "SET", "min-replicas-to-write", "1")
    until(lambda: server.execute("INFO", "replication")["min_slaves_good_slaves"] == 1)  # Redis counts once a second
    is_well, text = found(server.url())["min-replicas-to-write"]
    assert is_well
    assert text.startswith("1 of 1 have to be there")
    server.execute("CONFIG", "SET", "maxmemory", "1000000")
    assert is_wrong(server.url(), "memory", "a full server refuses all writes")
    server.execute("CONFIG", "SET", "min-replicas-to-write", "3")
    with pytest.raises(StoreError, match="too few replicas"):
        found(server.url())


def test_a_replica_that_lags(make_redis, until, monkeypatch):
    """
    A replica that has not answered for long is reported with its address.
    """
    server = make_redis()
    replica = make_redis("--replicaof", f"127.0.0.1 {server.port}")
    monkeypatch.setattr(redis_examine, "LAG_MAX_S", -1)
    named = f"127.0.0.1:{replica.port} is online, and was last heard of"
    until(lambda: is_wrong(server.url("?replicas=1"), "replica", named))


def test_a_redis_that_cannot_save(make_redis, until):
    """
    If Redis cannot write to its disk, the doctor says which kind of write failed.
    """
    server = make_redis()
    file = server.folder / "dump.rdb"
    file.mkdir()
    server.execute("BGSAVE")
    until(lambda: is_wrong(server.url(), "saving", "rdb_last_bgsave_status failed"))
    file.rmdir()
    server.execute("BGSAVE")
    until(lambda: found(server.url())["saving"][0])


def test_partitions(make_redis):
    """
    If only some partitions have a problem, the finding names them, even if one partition is unreachable.
    """
    cluster = RedisCluster(make_redis, replicas=0)
    url = f"{cluster.url}partitions=3"
    masters = cluster.masters()
    for number, server in enumerate(masters):
        server.execute("CONFIG", "SET", "maxmemory", "1000000" if number else "0")
    memory = [(is_well, text) for check, is_well, text in doctor.server_findings(url) if check == "memory"]
    assert sum(is_well for is_well, _ in memory) == 1
    assert all(re.match(r"partitions? [012](, [012])? of 3: ", text) for _, text in memory)
    for server in masters:
        server.execute("CONFIG", "SET", "maxmemory", "0")
    masters[0].stop()
    checks = [(check, is_well, text) for check, is_well, text in doctor.server_findings(url) if check == "server"]
    assert [is_well for _, is_well, _ in checks] == [False]
    assert checks[0][2].startswith("partition")


def test_handlers_of_nodes(redis_server, until, run):
    """
    The doctor reports a handler that only one of two nodes has, and a handler that a job needs but no node has.
    """
    url = redis_server.empty_url("&lease_s=1")
    with closing(Scheduler(url)) as one, closing(Scheduler(url)) as other:
        for scheduler, names in ((one, ("both", "mine")), (other, ("both",))):
            for name in names:
                scheduler.handler(name)(print)
            scheduler.start()
        one.set("later", delay="1h", handler="typo")
        until(lambda: sum("handlers" in (node.figures or {}) for node in one.nodes()) == 2)
        findings = {
            each["check"]: each for each in map(json.loads, run("doctor", "--json", "--store", url).stdout.splitlines())
        }
        assert "handler 'both'" not in findings
        (owner,) = [node.owner for node in one.nodes() if "mine" in node.figures["handlers"]]
        assert findings["handler 'mine'"]["finding"].startswith(f"only {owner} has it: ")
        assert findings["handler 'typo'"]["finding"].startswith("no node has it")


def test_handlers_that_are_not_reported():
    """
    The doctor does not say that a handler is missing if it may be in the truncated part of a node's report.

    A dead node counts as a node without handlers.
    """
    cut = {"handlers": ["a", "m"], "has_more_handlers": True}
    whole = {"handlers": ["a", "m", "x"]}
    jobs = [Job(name, 1, 0, target="handler", handler=name) for name in ("b", "y")]

    def named(*nodes):
        return [check for check, _, _ in doctor.handler_findings(nodes, jobs, 1_000)]

    assert named(Node("1", figures=cut), Node("2", figures=whole)) == ["handler 'b'"]
    assert named(Node("1", figures=whole), Node("2", figures=whole)) == ["handler 'b'", "handler 'y'"]
    alive, other = Node("1", 2_000, figures=whole), Node("2", 2_000, figures={"handlers": ["a", "m"]})
    assert named(alive, other, Node("3", 999, figures={"handlers": ["b", "x", "y"]})) == [
        "handler 'x'",
        "handler 'b'",
        "handler 'y'",
    ]


def test_a_report_with_too_many_handlers():
    """
    If a node has more handlers than fit into its report, the report says that it is truncated.
    """
    for number in (200, 201):
        with closing(Scheduler("memory://")) as scheduler:
            for each in range(number):
                scheduler.handler(f"{each:03}")(print)
            (node,) = scheduler.start().nodes()
            figures = node.figures
            assert (len(figures["handlers"]), figures["has_more_handlers"]) == (200, number > 200)
