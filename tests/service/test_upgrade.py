"""
A rolling upgrade over a change of the schema: a node as it was before the newest migration, and one of today.

The older node is the real one: its sources come from the checkout's history, with the native module of today.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from tickwheel import _core
from tickwheel.cli.exits import ExitCode

ROOT = Path(__file__).parents[2]
MIGRATIONS = "src/tickwheel/scheduler/stores/postgres/migrations"
NOTES = """
def register(scheduler):
    @scheduler.handler("note")
    def note(_payload, firing):
        print(f"ran {firing.job.key} {firing.job.due_at}\\n", end="")  # in one piece: others print as well
"""
NOW, FAR = ({"delay": delay, "target": "handler", "handler": "note"} for delay in (0, 3600))
EVERY_SECOND = {"every": 1, "target": "handler", "handler": "note", "misfire": "all"}
KEYS = 12
"""Spread over enough shards that each of two nodes has some."""
NAMES = ("once/before", "once/during", "once/after", "each/before", "each/during")


def git(*arguments):
    """
    Return what git answers about the checkout; skip the test where it has none.
    """
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("no git checkout here: there is no older tickwheel")
    answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if answer.returncode:
        pytest.skip(f"the checkout does not give an older tickwheel: {answer.stderr.decode().strip()}")
    return answer.stdout


@pytest.fixture
def older(tmp_path):
    """
    Return the environment of a process that runs tickwheel as it was before the newest migration.
    """
    newest = max((ROOT / MIGRATIONS).glob("*.sql"))
    added = git("log", "-1", "--diff-filter=A", "--format=%H", "--", f"{MIGRATIONS}/{newest.name}").decode().strip()
    archive = git("archive", f"{added}^" if added else "HEAD", "src/tickwheel")  # one that is not committed yet
    with tarfile.open(fileobj=io.BytesIO(archive)) as sources:
        sources.extractall(tmp_path / "older", filter="data")
    source = tmp_path / "older" / "src"
    assert not list((source / "tickwheel").rglob(newest.name))
    shutil.copy(_core.__file__, source / "tickwheel")
    environment = {"PYTHONPATH": str(source)}
    answer = tickwheel(environment, "--version", cwd=tmp_path)
    if answer.returncode:
        pytest.skip(f"the older tickwheel does not run on the native module of today: {answer.stderr}")
    return environment


def tickwheel(environment, *arguments, cwd):
    """
    Run a command of tickwheel's to its end.
    """
    return subprocess.run(
        [sys.executable, "-m", "tickwheel.cli", *arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def runs(*nodes):
    """
    Return the instants of all runs so far, sorted, by key.
    """
    found = defaultdict(list)
    for line in [line for node in nodes for line in tuple(node.lines)]:
        if match := re.fullmatch(r"ran (\S+) (\d+)\n", line):
            found[match[1]].append(int(match[2]))
    return {key: sorted(instants) for key, instants in found.items()}


def test_a_newer_node_migrates_under_an_older_one(start, postgres_url, tmp_path, older, until):
    """
    No run is missed or repeated while a newer node joins, migrates and takes over; no older one starts from then on.
    """
    (tmp_path / "notes.py").write_text(NOTES)
    store = {"TICKWHEEL_STORE": postgres_url}

    def set_all(nodes, name, body):
        for number in range(KEYS):
            assert nodes[number % len(nodes)].job("PUT", f"{name}/{number}", body).status == 201

    def run_all(nodes, name):
        for number in range(KEYS):
            assert nodes[number % len(nodes)].job("POST", f"{name}/{number}", {}, action=":run").status == 200

    old = start("--handlers", "notes", environment=store | older)
    set_all([old], "each/before", EVERY_SECOND)
    set_all([old], "once/before", FAR)
    old.line_with("ran each/before")
    new = start("--handlers", "notes", environment=store)
    new.line_with("ran each/before")  # what the older one set
    run_all([old, new], "once/before")
    set_all([new, old], "once/during", NOW)
    set_all([new, old], "once/after", FAR)
    set_all([old, new], "each/during", EVERY_SECOND)
    old.line_with("ran each/during")
    new.line_with("ran each/during")

    late = tickwheel(store | older, "serve", "--port", "0", cwd=tmp_path)
    assert late.returncode == ExitCode.NO_STORE
    assert re.search(r"has schema version \d+, and this tickwheel knows 1 to \d+: upgrade tickwheel", late.stderr)

    assert old.stop() == 0
    stopped = max(instant for instants in runs(old, new).values() for instant in instants)
    run_all([new], "once/after")
    until(lambda: not new.ask("GET", "/v1/jobs?prefix=once/").json["jobs"])
    until(lambda: all(each[-1] > stopped for key, each in runs(old, new).items() if key.startswith("each/")))
    assert new.stop() == 0
    found = runs(old, new)
    assert found.keys() == {f"{name}/{number}" for name in NAMES for number in range(KEYS)}
    for key, instants in found.items():
        expected = 1 if key.startswith("once/") else (instants[-1] - instants[0]) // 1000 + 1
        assert instants == [instants[0] + 1000 * number for number in range(expected)], key
