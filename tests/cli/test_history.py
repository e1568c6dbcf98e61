"""
The command `tickwheel history`, which prints the past of a job.
"""

from __future__ import annotations

import json

import pytest

from tickwheel.jobs.model import Begin, Set, Settle, Settled
from tickwheel.scheduler import Job
from tickwheel.stores import open_store
from tickwheel.testing.store_suite._history import record_of


@pytest.fixture
def failed(tmp_path):
    """
    Create a store with one job, whose history has two records.
    """
    store = open_store(f"sqlite:///{tmp_path / 'tickwheel.db'}")
    (lease,) = store.acquire("owner")
    job = store.apply([Set(Job("k\n", 0, 1_000))])[0].job
    records = [
        record_of(job, at=2_000, begun_at=1_000.5, took_ms=12.25, error="it broke", traceback="line 1\n\x1b[31mline 2"),
        record_of(job, "died", at=3_000, attempt=2, note="page 12\n"),
    ]
    for record in records:
        store.apply([Begin(job, lease.epoch), Settle(job, lease.epoch, Settled.AGAIN, record=record)])
    store.close()


@pytest.mark.usefixtures("failed")
def test_history(run):
    """
    Records are printed one per line, the newest first. An option adds tracebacks.
    """
    answer = run("history", "k\n")
    assert answer.returncode == 0, answer.stderr
    last, first = [line.split("\t") for line in answer.stdout.splitlines()]
    assert ([*last[1:5], last[-1]], first[1:]) == (
        ["died", "2", "", "", "page 12\\n"],
        ["failed", "1", "0.5", "12.2", "the first owner", "it broke"],
    )
    assert run("history", "k\n", "--limit", "1").stdout.count("\n") == 1
    assert "line 1\n\\x1b[31mline 2\n" in run("history", "k\n", "--traceback").stdout
    documents = [json.loads(line) for line in run("history", "k\n", "--json").stdout.splitlines()]
    assert [document["attempt"] for document in documents] == [2, 1]
    assert (documents[1]["lateness_ms"], documents[1]["took_ms"]) == (0.5, 12.25)
    assert documents[1]["at"].startswith("1970-01-01T")


@pytest.mark.usefixtures("failed")
def test_pages_of_history(run):
    """
    If there are more records than fit on a page, the command prints where to continue.
    """
    first = run("history", "k\n", "--limit", "1")
    assert "\tdied\t" in first.stdout
    *rest, option, number = first.stderr.split()
    assert ([*rest[:3], option], number) == (["there", "may", "be", "--before"], "2")
    second = run("history", "k\n", "--limit", "5", "--before", number)
    assert ("\tfailed\t" in second.stdout, second.stdout.count("\n"), second.stderr) == (True, 1, "")
    assert json.loads(run("history", "k\n", "--before", number, "--json").stdout)["number"] == 1
    last = run("history", "k\n", "--before", "1")
    assert (last.returncode, last.stdout, "from before 1" in last.stderr) == (0, "", True)
    assert run("history", "k\n", "--before", "0").returncode == 2


@pytest.mark.usefixtures("failed")
def test_a_job_without_a_history(run):
    """
    If a job has no history, the command says so and succeeds.
    """
    answer = run("history", "another")
    assert (answer.returncode, answer.stdout) == (0, "")
    assert "nothing is kept of 'another'" in answer.stderr
