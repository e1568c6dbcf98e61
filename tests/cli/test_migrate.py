"""
`tickwheel migrate` as a user runs it.
"""

from __future__ import annotations

import json

import pytest

from tickwheel.jobs import model
from tickwheel.scheduler import Scheduler
from tickwheel.scheduler.migration import Migration
from tickwheel.stores import open_store

FROM, TO = "sqlite:///from.db", "sqlite:///to.db"


@pytest.fixture
def filled(run):
    """
    Put three jobs into the store FROM, and return a function that runs commands.
    """
    for key in ("a", "b", "c"):
        assert run("set", key, "--delay", "1h", "--handler", "h", "--store", FROM).returncode == 0
    return run


def keys_of(run, store):
    return [line.split("\t")[0] for line in run("list", "--store", store).stdout.splitlines()]


def test_moves_all(filled):
    """
    All jobs are moved and counted. Jobs that were set during the first run are moved by a second run.
    """
    done = filled("migrate", FROM, TO)
    assert done.returncode == 0, done.stderr
    assert "moved: 3\n" in done.stdout
    assert "left: 0\n" in done.stdout
    assert "target: 3 pending, 0 running, 0 dead\n" in done.stdout
    assert keys_of(filled, TO) == ["a", "b", "c"]
    assert keys_of(filled, FROM) == []
    assert done.stdout.splitlines()[-1].endswith("let them use TO, and then run this again for the late ones")
    assert json.loads(filled("migrate", FROM, TO, "--json").stdout)["moved"] == 0
    assert filled("set", "d", "--delay", "1h", "--handler", "h", "--store", FROM).returncode == 0
    done = filled("migrate", FROM, TO, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["moved"], facts["late"], facts["left"]) == (1, 0, 0)
    assert keys_of(filled, TO) == ["a", "b", "c", "d"]


def test_dry_run(filled):
    """
    A dry run counts the jobs and names the keys that exist in both stores, but moves nothing.
    """
    assert filled("set", "b", "--delay", "1h", "--handler", "h", "--store", TO).returncode == 0
    facts = json.loads(filled("migrate", FROM, TO, "--dry-run", "--json").stdout)
    assert (facts["jobs"], facts["pending"], facts["conflicts"]) == (3, 3, ["b"])
    assert keys_of(filled, FROM) == ["a", "b", "c"]
    facts = json.loads(filled("migrate", FROM, "sqlite:///new.db", "--dry-run", "--json").stdout)
    assert facts["conflicts"] == []
    assert "there is no file" in filled("list", "--store", "sqlite:///new.db").stderr


def test_conflicts_are_printed(filled):
    """
    If a key exists in both stores, the command fails and prints the key, and both jobs stay where they are.
    """
    assert filled("set", "b", "--delay", "1h", "--handler", "h", "--store", TO).returncode == 0
    done = filled("migrate", FROM, TO)
    assert done.returncode == 1
    assert "conflicts: 1\n    b\n" in done.stdout
    assert "1 job left in FROM" in done.stderr
    assert keys_of(filled, FROM) == ["b"]


def test_an_interrupted_migration_is_continued(filled, tmp_path):
    """
    If a migration is interrupted, the next run completes it.
    """

    def interrupt(step):
        if step == "removed":
            raise KeyboardInterrupt

    stores = [open_store(f"sqlite:///{tmp_path}/{name}.db") for name in ("from", "to")]
    with pytest.raises(KeyboardInterrupt):
        Migration(*stores, on_step=interrupt).run()
    assert stores[1].count() == {"pending": 0, "running": 0, "dead": 3}
    for store in stores:
        store.close()
    facts = json.loads(filled("migrate", FROM, TO, "--json").stdout)
    assert (facts["moved"], facts["finished"], facts["complete"]) == (3, 3, True)


def test_source_is_served(filled, tmp_path):
    """
    If another process fires the jobs of the source, the command fails with the exit code for a store in use.
    """
    scheduler = Scheduler(f"sqlite:///{tmp_path}/from.db")
    scheduler.start()
    done = filled("migrate", FROM, TO, "--wait", "0")
    scheduler.stop()
    assert done.returncode == 6
    assert "stop" in done.stderr


@pytest.mark.parametrize(
    ("source", "target", "code", "message"),
    [
        ("sqlite:///nowhere.db", TO, 7, "there is no file 'nowhere.db'"),
        (FROM, FROM, 2, "name two stores"),
        (FROM, "sqlite:///./from.db", 2, "name two stores"),
        ("memory://", TO, 2, "name a store that outlives it"),
        (FROM, "memory://", 2, "name a store that outlives it"),
        (FROM, "mysql://x", 7, "begin with"),
        (FROM, "redis://:secret@127.0.0.1:1/0", 13, "redis://:***@127.0.0.1:1/0: the connection failed"),
    ],
)
def test_wrong_stores(filled, source, target, code, message):
    """
    If a migration cannot use one of the stores, the error names the store and a remedy, and nothing is moved.
    """
    done = filled("migrate", source, target)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "secret" not in done.stderr
    assert keys_of(filled, FROM) == ["a", "b", "c"]


def test_a_dead_letter_is_not_taken_for_a_parked_job(filled, tmp_path):
    """
    A dead letter of the user is moved unchanged, and is not mistaken for a job of an interrupted migration.
    """
    store = open_store(f"sqlite:///{tmp_path}/from.db")
    store.apply([model.Adopt(model.Job("dead", 0, 5, state=model.State.DEAD, error="it broke"))])
    store.close()
    assert filled("migrate", FROM, TO).returncode == 0
    (line,) = filled("dead", "list", "--json", "--store", TO).stdout.splitlines()
    assert json.loads(line)["error"] == "it broke"
