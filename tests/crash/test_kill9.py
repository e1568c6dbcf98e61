"""
The crash proof in its short form.

`python tests/crash/kill9.py` is the long one.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill9.py")


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a POSIX signal")
@pytest.mark.parametrize(
    ("every", "where"),
    [
        (("0.5", "1.2"), ()),
        (("1.0", "1.4"), ("--store", "redis")),
        (("0.5", "1.2"), ("--store", "redis", "--kill", "server")),
    ],
    ids=["sqlite", "redis", "redis-server"],
)
def test_nothing_is_lost(run_proof, capsys, every, where):
    """
    If the owner or the server is killed about every second, every acknowledged job fires, and no settled job again.
    """
    if where and not shutil.which("redis-server"):
        pytest.skip("Redis is not installed: there is no redis-server")
    kill(run_proof, capsys, every, where)


@pytest.mark.realtime
@pytest.mark.slow
def test_nothing_is_lost_on_postgres(run_proof, capsys, postgres_url):
    """
    No job is lost on PostgreSQL.
    """
    kill(run_proof, capsys, ("1.0", "1.4"), ("--store", f"{postgres_url}&lease_s=1"))


def kill(run_proof, capsys, every, where):
    """
    Run the proof in its short form.
    """
    command = [sys.executable, str(SCRIPT), "--jobs", "100", "--seconds", "5", "--every", *every, *where]
    done = run_proof(command, 300)
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")  # so that the log has the seed
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"acknowledged (\d+) of 100, lost (\d+), .* early firings (\d+), kills (\d+)", done.stdout)
    assert found is not None, done.stdout
    acknowledged, lost, wrong, kills = map(int, found.groups())
    assert (acknowledged, lost, wrong) == (100, 0, 0)
    assert kills >= 3
