"""
Commands that change all jobs which match a filter.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from tickwheel.cli.exits import ExitCode
from tickwheel.scheduler import Scheduler


def test_each_command_with_a_filter(run):
    """
    Each command can select jobs by the same options. A dry run counts these jobs.
    """
    for key in ("tea/1", "tea/2", "coffee"):
        run("set", key, "--delay", "1h", "--target", "log")
    before = instants(run)
    assert run("cancel", "--contains", "ea/", "--dry-run").stdout == "2 jobs to be cancelled\n"
    assert run("move", "--target", "log", "--contains", "ea/", "--by", "-10m").stdout == "moved 2 jobs\n"
    assert run("move", "--prefix", "coffee", "--over", "10m", "--at", before["coffee"]).stdout == "moved 1 job\n"
    after = instants(run)
    assert after["tea/1"] < before["tea/1"]
    assert after["coffee"] >= before["coffee"]
    assert run("pause", "--contains", "2", "--note", "why").stdout == "paused 1 job\n"
    assert [line.split("\t")[0] for line in run("list", "--paused").stdout.splitlines()] == ["tea/2"]
    assert run("resume", "--prefix", "").stdout == "resumed 1 job\n"
    assert run("run", "--contains", "1", "--due-from", before["coffee"]).stdout == "run now 0 jobs\n"
    assert run("run", "--prefix", "tea/1").stdout == "run now 1 job\n"
    for wrong in (("tea/1", "--by", "1h"), ("--prefix", "t", "--delay", "1h"), ("--prefix", "t")):
        assert run("move", *wrong).returncode == 2


def test_by_cannot_be_combined_with_over_or_at(run):
    """
    If `--by` is combined with `--over` or `--at`, the command is refused, and no job is moved.
    """
    run("set", "tea", "--delay", "1h", "--target", "log")
    before = instants(run)
    for other, value in (("--over", "10m"), ("--at", "2050-01-01")):
        answer = run("move", "--prefix", "tea", "--by", "1h", other, value)
        assert (answer.returncode, f"--by and {other} exclude" in answer.stderr) == (ExitCode.USAGE, True)
    assert instants(run) == before


@pytest.mark.parametrize("text", ["20290101", "202901010900", "20290101090000", "21000301"])
def test_a_date_in_digits_alone(run, text):
    """
    A number such as 20300101 is refused as an instant, because the user may have meant a date.
    """
    run("set", "tea", "--delay", "1h", "--target", "log")
    answer = run("cancel", "--due-from", text)
    assert answer.returncode == ExitCode.USAGE
    assert (
        f"'{text}' may be a date, or epoch seconds: write {text[:4]}-{text[4:6]}-{text[6:8]} for the date, or {text}.0"
        in answer.stderr
    )
    until = f"--due-until={time.time() + 1e9:.3g}"
    for option in ("--due-from=20290101.0", "--due-from=20291301", "--due-from=1000000000", until):
        assert run("cancel", option, "--dry-run").stdout == "1 job to be cancelled\n"


def test_limit_of_a_filter(run):
    """
    With a limit, at most that number of jobs is changed, and a cursor continues with the remaining jobs.
    """
    for n in range(3):
        run("set", f"tea/{n}", "--every", "1h", "--target", "log")
    for verb, done in (("pause", "paused"), ("resume", "resumed"), ("run", "run now"), ("cancel", "cancelled")):
        first = run(verb, "--prefix", "tea/", "--limit", "2")
        assert first.stdout == f"{done} 2 jobs\n"
        cursor = first.stderr.split()[-1].strip("'")
        rest = run(verb, "--prefix", "tea/", "--limit", "2", "--cursor", cursor)
        assert (rest.stdout, rest.stderr) == (f"{done} 1 job\n", "")
    run("set", "tea", "--delay", "1h", "--target", "log")
    for option in ("--dry-run", "--limit=1", "--cursor=1.1/"):
        for command in (("cancel", "tea"), ("move", "tea", "--delay", "2h"), ("pause", "--scope", "log")):
            answer = run(*command, option)
            assert (answer.returncode, "go with --prefix" in answer.stderr) == (ExitCode.USAGE, True)
    assert run("list").stdout.split("\t")[1] == "pending"


@pytest.mark.parametrize("filters", [("--prefix", ""), ("--state", "running"), ("--contains", "e")])
def test_stop_with_a_filter(run, filters):
    """
    With an option, `cancel` also asks running jobs to stop, and counts them separately.
    """
    begun = threading.Semaphore(0)
    scheduler = Scheduler("sqlite:///tickwheel.db")

    @scheduler.handler("steep")
    async def steep(_payload):
        begun.release()
        await asyncio.Event().wait()

    with scheduler:
        for key in ("steeps/1", "steeps/2"):
            scheduler.set(key, delay=0, handler="steep")
            assert begun.acquire(timeout=60)
        scheduler.set("later", delay=3600, handler="steep")
        pending = filters[0] != "--state"
        dry = run("cancel", *filters, "--running", "--dry-run").stdout
        assert dry == ("3 jobs" if pending else "2 jobs") + " to be cancelled or stopped\n"
        done = run("cancel", *filters, "--running", "--json")
        counts = json.loads(done.stdout)
        assert (counts["changed"], counts["stopping"]) == (2 + pending, 2)


def test_the_output_of_a_stop(run):
    """
    `cancel` prints the numbers of jobs that it cancelled, and that it asked to stop.
    """
    begun, scheduler = threading.Event(), Scheduler("sqlite:///tickwheel.db")

    @scheduler.handler("steep")
    async def steep(_payload):
        begun.set()
        await asyncio.Event().wait()

    with scheduler:
        scheduler.set("tea", delay=0, handler="steep")
        assert begun.wait(60)
        assert run("cancel", "--prefix", "t").stdout == "cancelled 0 jobs\n"
        assert run("cancel", "tea", "--running", "--dry-run").returncode == ExitCode.USAGE
        assert run("cancel", "--running").returncode == ExitCode.USAGE
        assert run("cancel", "--prefix", "t", "--running").stdout == "cancelled 0 jobs; asked 1 job to stop\n"


def instants(run):
    """
    Return the due time of each job, by key.
    """
    documents = (json.loads(line) for line in run("list", "--json").stdout.splitlines())
    return {document["key"]: document["due_at"] for document in documents}


def test_cancel_all_under_a_prefix(run):
    """
    All pending jobs under a prefix can be cancelled, and their number is printed.

    Other jobs stay.
    """
    for key in ("tea/1", "tea/2", "coffee"):
        run("set", key, "--delay", "1h", "--target", "log")
    assert run("cancel", "--prefix", "tea/").stdout == "cancelled 2 jobs\n"
    assert json.loads(run("cancel", "--prefix", "tea/", "--json").stdout)["changed"] == 0
    assert [line.split("\t")[0] for line in run("list").stdout.splitlines()] == ["coffee"]
    for wrong in ((), ("coffee", "--prefix", ""), ("--prefix", "", "--if-generation", "1"), ("--dry-run",)):
        refused = run("cancel", *wrong)
        assert refused.returncode == 2
        assert "name one job; or choose jobs by --prefix" in refused.stderr
