"""
A SQLite file, or one of its side files, is deleted, moved or replaced while it is open.
"""

from __future__ import annotations

import os
import shutil
import threading

import pytest
from sqlite_files import connected
from writes import set_one

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError, StoreInUseError
from tickwheel.observe.events import OwnershipLost, StoreFailed
from tickwheel.scheduler import Scheduler
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite._open_file import OpenFile


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "jobs.db"


def beside(path, suffix):
    """
    Return the side file of *path* with *suffix*.
    """
    return path.with_name(path.name + suffix)


def replace(path):
    """
    Replace *path* with a copy, as restoring a backup does.
    """
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.rename(path)


LOSSES = {
    "deleted": lambda path: path.unlink(),
    "renamed": lambda path: path.rename(path.with_name("elsewhere")),
    "replaced": replace,
    "folder moved": lambda path: path.parent.rename(path.parent.with_name("moved")),
    "log deleted": lambda path: beside(path, "-wal").unlink(),
    "log replaced": lambda path: replace(beside(path, "-wal")),
    "index deleted": lambda path: beside(path, "-shm").unlink(),
}


@pytest.fixture(params=LOSSES)
def lose(request, path):
    """
    Return a function that makes the file disappear in one of several ways, and the error message that must follow.
    """
    part = {"log": "its -wal ", "index": "its -shm "}.get(request.param.split()[0], "")
    return lambda: LOSSES[request.param](path), f"{part}was moved, deleted or replaced while it was open: stop all"


def test_clients_notice_before_they_write(open_file, lose):
    """
    If the file is gone, every write, every read and the start of an owner raise an error.
    """
    take_away, words = lose
    store = open_file()
    set_one(store)
    take_away()
    for call in (lambda: set_one(store), lambda: store.get("key"), lambda: store.acquire("late"), store.count):
        with pytest.raises(StoreError, match=words) as caught:
            call()
        assert not caught.value.is_transient


def test_owner_notices_on_its_own(path, lose):
    """
    An idle owner detects that its file is gone, even if no method is called.

    It reports this and releases its shard.
    """
    take_away, words = lose
    seen, is_over = [], threading.Event()

    def hear(event):
        if isinstance(event, StoreFailed | OwnershipLost):
            seen.append(event)
        if isinstance(event, OwnershipLost):
            is_over.set()

    with Scheduler(f"sqlite:///{path}") as scheduler:
        scheduler.subscribe(hear)
        scheduler.handler("note")(print)
        scheduler.set("far", delay=3_600, handler="note")
        take_away()
        assert is_over.wait(30.0)  # two renewals take 0.8 s; nothing else checks the file within the hour
        assert words.split(":")[0] in str(seen[0])


def test_a_file_that_is_moved_back(path, until):
    """
    If a file is moved away and back, its owner fires again, under a new epoch.
    """
    fired = threading.Event()
    with Scheduler(f"sqlite:///{path}") as scheduler:
        scheduler.handler("note")(lambda _: fired.set())
        (before,) = scheduler.shards()
        path.rename(path.with_name("elsewhere"))
        until(lambda: not scheduler.is_ready)
        path.with_name("elsewhere").rename(path)
        until(lambda: scheduler.is_ready)
        scheduler.set("due", delay=0, handler="note")
        assert fired.wait(30.0)
        (after,) = scheduler.shards()
        assert after.epoch > before.epoch


def test_a_read_of_a_moved_file_makes_no_new_file(path, open_file, monkeypatch):
    """
    If a file is moved away just before a connection opens its path, the connection creates no new file.

    If there were a new file, SQLite would discard the log that belongs to the moved file.
    """
    store = open_file()
    set_one(store, "kept")
    look, away = OpenFile.look, path.with_name("elsewhere")

    def look_and_lose(file):
        look(file)
        path.rename(away)

    monkeypatch.setattr(OpenFile, "look", look_and_lose)
    with pytest.raises(StoreError):
        store.get("kept")
    assert not path.exists()
    assert beside(path, "-wal").stat().st_size
    away.rename(path)
    monkeypatch.undo()
    assert store.get("kept").key == "kept"


def test_no_second_owner(path, open_file):
    """
    A new file gets no owner until the owner of the deleted file has noticed the deletion.
    """
    store = open_file()
    store.acquire("first")
    path.unlink()
    for suffix in ("-wal", "-shm"):
        beside(path, suffix).unlink()
    other = open_file()
    with pytest.raises(StoreInUseError, match="is owned by first"):
        other.acquire("second")
    with pytest.raises(StoreError, match="was moved, deleted or replaced"):
        store.renew("first")
    assert store.renew("first") == []
    assert len(other.acquire("second")) == 1


def test_no_transaction_on_a_new_file_is_joined(path, open_file):
    """
    A store of a deleted file refuses to join a transaction on a new file with the same name.
    """
    store = open_file()
    replace(path)
    with connected(path) as connection, pytest.raises(StoreError, match="was moved, deleted or replaced"):
        store.join(connection, [model.Set(model.Job("key", 0, 0))])


def test_deleted_fifo_is_made_again(path, open_file):
    """
    An owner whose FIFO was deleted makes a new FIFO at its next renewal.

    From then on the owner is notified of writes through the new FIFO.
    """
    store, peer = open_file(), open_file()
    store.acquire("owner")
    beside(path, "-wake").unlink()
    assert len(store.renew("owner")) == 1
    store.wait_for_change(0.0)  # the renewal wakes the thread that listened at the old FIFO
    set_one(peer)
    assert store.wait_for_change(20.0) is True


def test_fifo_of_the_heir_stays(path, open_file):
    """
    An owner that has lost its lock does not remove the FIFO of the next owner.
    """
    store, heir = open_file(), open_file()
    store.acquire("owner")
    beside(path, "-lock").unlink()
    heir.acquire("heir")
    assert store.renew("owner") == []
    set_one(store)
    assert heir.wait_for_change(20.0) is True


def test_hard_link_is_refused(path, open_file):
    """
    A file with two names (a hard link) is refused, because each name would have its own log.

    A symbolic link is accepted.
    """
    open_file()
    link = path.with_name("link.db")
    os.link(path, link)
    for name in (path, link):
        with pytest.raises(StoreError, match=r"has 2 names \(hard links\), and SQLite keeps a log for each"):
            SqliteStore(name).open()
    assert not beside(link, "-wal").exists()
    link.unlink()
    link.symlink_to(path)
    other = SqliteStore(link)
    other.open()
    other.close()
