"""
The crash proof in its short form.

`python tests/crash/kill9.py` runs the long form.
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
    Every acknowledged job fires, and no settled job fires again, although the owner or the server is often killed.
    """
    if where and not shutil.which("redis-server"):
        pytest.skip("Redis is not installed: there is no redis-server")
    kill(run_proof, capsys, every, where)


@pytest.mark.realtime
@pytest.mark.slow
def test_nothing_is_lost_on_postgres(run_proof, capsys, postgres_url):
    """
    No job is lost if the owner of a PostgreSQL store is killed repeatedly.
    """
    kill(run_proof, capsys, ("1.0", "1.4"), ("--store", f"{postgres_url}&lease_s=1"))


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_nothing_is_lost_in_batches(run_proof, capsys, store):
    """
    If a node is killed during bulk sets, claims and settles, each acknowledged job has exactly one outcome.
    """
    if store == "postgres":
        pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    script = str(SCRIPT.with_name("kill9_batches.py"))
    done = run_proof([sys.executable, script, "--kills", "3", "--store", store], 300)
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")  # so that the log has the seed
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"kills 3, acknowledged [1-9]\d*, lost 0, early 0, doubled 0, ", done.stdout), done.stdout


def test_each_kind_of_fault_in_batches_is_found(tmp_path, monkeypatch):
    """
    The proof finds lost, early and doubled jobs in its files.
    """
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from kill9_batches import FILES, Log, Result  # noqa: PLC0415 - a program of this folder

    fired = ["early early/1/1 -0.5 a", "again again/2/1 1 a", "again again/2/2 1 a", "cancelled cancelled/3/1 1 a"]
    fired += ["ended ended/4/1 1 a", "ended ended/4/2 1 b", "id id/5/1 1 a", "id id/5/1 1 b"]
    keys = ["lost", "unanswered", *dict.fromkeys(line.split()[0] for line in fired)]
    lines = {"set": keys, "asked": ["cancelled", "unanswered"], "cancelled": ["cancelled"], "fired": fired}
    lines |= {"settled": ["ended/4/1"], "owners": ["a", "b"]}
    for name in FILES:
        Log(tmp_path / name).add(lines.get(name, []))
    with (tmp_path / "set").open("a") as file:
        file.write("\ncut-off-by-a-ki")
    found = Result.read(tmp_path)
    assert (found.acknowledged, found.owners) == (len(keys), 2)
    assert found.lost == ["lost"]
    assert found.early == ["early/1/1 came -0.5 ms late"]
    assert sorted(line.split()[0].partition("/")[0] for line in found.doubled) == ["again", "cancelled", "ended", "the"]


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
