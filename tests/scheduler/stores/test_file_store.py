"""
The example store of docs/write-a-store.md uses only public names.

It keeps the contract even if its process is killed.
"""

from __future__ import annotations

import ast
import errno
import itertools
import os
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tickwheel.jobs.errors import StoreError, StoreInUseError
from tickwheel.jobs.model import Job, Set
from tickwheel.scheduler import Scheduler
from tickwheel.stores import open_store
from tickwheel.testing.store_suite import DurableStoreSuite, StoreSuite

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "file_store.py"

sys.path.append(str(EXAMPLE.parent))
file_store = pytest.importorskip("file_store", reason="the example is not in a wheel, and needs fcntl")


def opened(path):
    """
    Return an open store on the file *path*.
    """
    return open_store(f"file_store:FileStore?path={path}")


def set_one(store, key, payload=b""):
    (answer,) = store.apply([Set(Job(key, 0, 1, payload))])
    return answer.job


class TestFileStore(StoreSuite):
    """
    The contract suite on one store object.
    """

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.paths = (tmp_path / f"{number}.log" for number in itertools.count())

    def make_store(self):
        return file_store.FileStore(str(next(self.paths)))


class TestDurableFileStore(DurableStoreSuite):
    """
    The durability suite: a store keeps its promises if it is closed or its process is killed.
    """

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.path = tmp_path / "jobs.log"

    def recipe(self):
        """
        Return a function that opens a store on the file.
        """
        return file_store.FileStore, (str(self.path),)


def test_it_imports_public_names_only():
    names = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(EXAMPLE.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tickwheel")
        for alias in node.names
    ]
    assert "tickwheel.stores.BaseStore" in names
    assert [name for name in names if "._" in name] == []
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 250


def test_a_scheduler_on_it(tmp_path):
    """
    A scheduler opens the store by its URL.

    A second scheduler on the store fires the jobs of the first.
    """
    url = f"file_store:FileStore?path={tmp_path / 'jobs.log'}"
    with Scheduler(url) as scheduler:
        scheduler.set("a", delay=0.01, handler="later", payload={"number": 17})
    fired, has_fired = [], threading.Event()
    with Scheduler(url) as scheduler:

        @scheduler.handler("later")
        def later(payload):
            fired.append(payload)
            has_fired.set()

        scheduler.start()
        assert has_fired.wait(60)
    assert fired == [{"number": 17}]


def test_one_process_at_a_time(tmp_path):
    """
    A second process cannot open the file until the first has closed it.
    """
    with closing(opened(tmp_path / "jobs.log")), pytest.raises(StoreInUseError, match="stop that process first"):
        opened(tmp_path / "jobs.log")
    opened(tmp_path / "jobs.log").close()


@pytest.mark.parametrize("tail", [b"0", b"00000000 []\n", b'cafecafe [["job/x",null]]', b"\n", b"\xff" * 100])
def test_a_line_that_was_cut_short_is_dropped(tmp_path, tail):
    """
    Bytes after the last complete line were never acknowledged, so they are dropped.

    Lines written later can be read.
    """
    path = tmp_path / "jobs.log"
    with closing(opened(path)) as store:
        job = set_one(store, "a", bytes(range(256)))
    with path.open("ab") as file:
        file.write(tail)
    for key in "bc":
        with closing(opened(path)) as store:
            assert store.get("a") == job
            set_one(store, key)
    with closing(opened(path)) as store:
        assert store.count()["pending"] == 3


def test_the_log_does_not_grow_without_end(tmp_path, monkeypatch):
    """
    Once most entries of its log are outdated, the store rewrites the log without them, even while it is open.
    """
    monkeypatch.setattr(file_store, "ROOM", 10_000)
    path = tmp_path / "jobs.log"
    with closing(opened(path)) as store:
        for _ in range(500):
            job = set_one(store, "a", b"x" * 100)
            assert path.stat().st_size < 15_000
    with closing(opened(path)) as store:
        assert store.get("a") == job
        assert store.last_generation() == job.generation


@pytest.mark.parametrize("is_written", [True, False])
def test_after_a_failed_flush_the_file_is_read_again(tmp_path, monkeypatch, is_written):
    """
    If the flush of a commit fails, the commit's outcome is unknown.

    The next call reads the file again, and the owner keeps its lease.
    """
    path = tmp_path / "jobs.log"
    with closing(opened(path)) as store:
        (lease,) = store.acquire("owner")
        set_one(store, "a")
        size, sync = path.stat().st_size, os.fsync

        def fail(_descriptor):
            monkeypatch.setattr(os, "fsync", sync)
            if not is_written:
                os.truncate(path, size + 5)
            raise OSError(errno.EIO, "it broke")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match="it broke") as caught:
            set_one(store, "b")
        assert caught.value.is_unknown
        assert (store.get("b") is not None) is is_written
        assert store.count()["pending"] == 1 + is_written
        assert [each.epoch for each in store.renew("owner")] == [lease.epoch]
        assert set_one(store, "c").generation > 1


def test_a_damaged_entry_is_an_error(tmp_path):
    """
    If an entry has a valid checksum but contents that no store writes, opening the file raises an error with a remedy.

    A second try raises the same error.
    """
    path = tmp_path / "jobs.log"
    for entry in (("job/a", b"x"), ("table/a", b"{}"), ("scope/x", b"[]"), ("generation", b"many")):
        path.write_bytes(file_store._line([entry]))
        for _ in range(2):
            with pytest.raises(StoreError, match=r"an entry that cannot be read .*: restore a backup"):
                opened(path)
