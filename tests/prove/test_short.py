"""
The proofs of this folder in their short forms.

`make prove` runs their long forms.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def proven(run_proof):
    """
    Return a function that runs a program of this folder, and returns its exit code and its last line of output.
    """

    def run(*command):
        done = run_proof([sys.executable, str(HERE / command[0]), *command[1:]], 300)
        assert done.stdout, done.stderr
        print(done.stdout)  # shown if the test fails
        return done.returncode, done.stdout.strip().splitlines()[-1]

    return run


def test_power_cuts(proven):
    """
    Every answered write exists after a power cut, and the file is sound.

    This holds whichever part of the unsynced data survives.
    """
    pytest.importorskip("apsw", reason="apsw is not installed: requirements/dev.txt has it")
    code, line = proven("power_cut.py", "--cuts", "40", "--seed", "1")
    assert code == 0, line
    assert "lost 0, corrupt 0" in line


def test_power_cuts_in_batches(proven):
    """
    If power is cut during bulk sets, claims and settles, each acknowledged job has exactly one outcome.
    """
    pytest.importorskip("apsw", reason="apsw is not installed: requirements/dev.txt has it")
    code, line = proven("power_cut_batches.py", "--cuts", "25")
    assert code == 0, line
    assert "lost 0, early 0, doubled 0, uncounted 0, corrupt 0" in line


@pytest.mark.parametrize("synchronous", ["normal", "off"])
@pytest.mark.parametrize("proof", ["power_cut.py", "power_cut_batches.py"])
def test_power_cuts_can_lose(proven, proof, synchronous):
    """
    If SQLite does not wait for the disk, power cuts lose acknowledged writes.

    This shows that the power-cut proof can fail.
    """
    pytest.importorskip("apsw", reason="apsw is not installed: requirements/dev.txt has it")
    code, line = proven(proof, "--cuts", "20", "--seed", "1", "--synchronous", synchronous)
    assert code == 1
    assert "lost 0" not in line


@pytest.mark.parametrize("seed", [0, 1])
def test_each_call_fails_once(seed):
    """
    If one of several hundred store calls fails, before or after its effect, no job is lost or run twice.
    """
    from each_call import prove  # noqa: PLC0415 - a program of this folder

    result = prove(seed, every=107, first=seed * 5)
    assert result.failures > 10
    assert result.said == []


@pytest.mark.realtime
@pytest.mark.slow
def test_clock_steps(proven):
    """
    If the client's clock jumps by an hour or a day, a store with its own clock fires all jobs in time.
    """
    from servers import redis_url  # noqa: PLC0415 - a module of this folder

    pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
    with redis_url() as url:
        code, line = proven("clock_steps.py", "--jobs", "80", "--seed", "1", "--store", url)
    assert code == 0, line


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"])
def test_no_job_is_early(proven, store):
    """
    No job fires before its due time by the clock of its store, at any fraction of a millisecond.
    """
    import servers  # noqa: PLC0415 - a module of this folder

    command = ["early.py", "--jobs", "2000"]
    with ExitStack() as stack:
        if store == "postgres":
            pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
            command += ["--store", f"{stack.enter_context(servers.postgres()).url('postgres')}&lease_s=1"]
        elif store == "redis":
            pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
            command += ["--store", stack.enter_context(servers.redis_url())]
        code, line = proven(*command)
    assert code == 0, line


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["back and right", "glimpse"])
def test_clock_trips(proven, scenario):
    """
    While a clock is set wrong for a short time, intervals, cron lines, delays and instants fire at the right times.
    """
    if not sys.platform.startswith("linux") or shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("the interposed clock needs Linux and a C compiler")
    code, line = proven("clock_trips.py", "--only", scenario, "--seed", "1")
    assert code == 0, line


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "client"), [("postgres", "psycopg"), ("redis", "redis")])
def test_clock_of_the_server(proven, kind, client):
    """
    If a node dies while the database server's clock is wrong for some time, the other node continues all jobs in time.
    """
    if not sys.platform.startswith("linux") or shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("the interposed clock needs Linux and a C compiler")
    pytest.importorskip(client, reason=f"{client} is not installed: pip install 'tickwheel[{kind}]'")
    code, line = proven("server_clock.py", "--kind", kind, "--rounds", "1")
    assert code == 0, line


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async", "cluster", "partitions", "sentinels"])
def test_failover(proven, mode):
    """
    If a standby is promoted under load, it uses no generation twice, and lacks only writes that never reached it.
    """
    if mode in {"sync", "async"}:
        pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    else:
        pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
    code, line = proven("failover.py", "--mode", mode, "--seconds", "6", "--seed", "1")
    assert code == 0, line


@pytest.mark.realtime
@pytest.mark.slow
def test_a_stopped_owner_is_refused(proven):
    """
    If an owner was suspended past the end of its lease, its acknowledgements are rejected, and no job is lost.
    """
    from servers import redis_url  # noqa: PLC0415 - a module of this folder

    pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
    with redis_url() as url:
        code, line = proven("sigstop.py", "--rounds", "1", "--seed", "1", "--store", url)
    assert code == 0, line
    assert "lost 0, unfinished 0, early 0, settled twice 0" in line


@pytest.mark.realtime
@pytest.mark.slow
def test_a_rolling_deployment(proven):
    """
    While nodes of two versions replace each other, each job runs once, on a node that has its handler.
    """
    import servers  # noqa: PLC0415 - a module of this folder

    pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
    with servers.redis_url() as url:
        code, line = proven("rolling.py", "--rounds", "1", "--seed", "1", "--store", url)
    assert code == 0, line


def test_cron_differences_belong_to_a_class():
    """
    At clock changes tickwheel differs from croniter only in the documented ways.
    """
    crons = pytest.importorskip("crons", reason="croniter is not installed: requirements/dev.txt has it")
    if not crons.SOURCE.exists():
        pytest.skip("../shared/traces is absent")
    zone = ZoneInfo("America/New_York")
    found = [crons.compare(line, zone, 150) for line in sorted(set(crons.real_lines())) if line.split()[1] == "1"]
    assert found
    assert [each for _, unexplained in found for each in unexplained] == []
    assert sum(classes["overlap"] for classes, _ in found) > 0


def test_zones_around_their_changes():
    """
    In zones with gaps at midnight, at the end of a day, or of only half an hour, a daily job fires exactly once a day.
    """
    crons = pytest.importorskip("crons", reason="croniter is not installed: requirements/dev.txt has it")
    for name in ("Africa/Cairo", "America/Nuuk", "Australia/Lord_Howe", "Europe/Berlin", "Asia/Beirut"):
        zone = ZoneInfo(name)
        found = crons.changes(zone, 2026)
        assert len(found) == 2
        assert [wrong for change in found for wrong in crons.wrong_around(change, zone)] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_chaos(proven, kind):
    """
    A service with injected faults keeps its promise on every store.
    """
    code, line = proven("chaos.py", "--kind", kind, "--seconds", "6")
    assert code == 0, line
    assert "lost 0, doubled 0, early 0, unexpected 0, silent 0" in line
