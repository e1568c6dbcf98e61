"""
A SQLite store whose opening, takeover or write is interrupted, or whose lock another process holds for a moment.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from functools import partial
from types import SimpleNamespace

import pytest
from writes import a_set, set_one

from tickwheel.jobs.errors import StoreInUseError
from tickwheel.stores.sqlite import _file_lock, _schema


@pytest.mark.parametrize("error", [sqlite3.OperationalError("database or disk is full"), KeyboardInterrupt()])
def test_migration_whose_transaction_is_over(path, error):
    """
    If a migration fails and SQLite has already rolled back its transaction, the original error is raised.

    For example, SQLite rolls back a transaction if the disk is full.
    """

    class Ended(sqlite3.Connection):
        def execute(self, sql, *values):
            if sql.startswith("INSERT INTO tickwheel_schema"):
                super().execute("ROLLBACK")
                raise error
            return super().execute(sql, *values)

    with closing(sqlite3.connect(path, isolation_level=None, factory=Ended)) as connection:
        with pytest.raises(type(error)) as caught:
            _schema.migrate(connection, "url")
        assert caught.value is error


def test_a_full_disk_has_no_room_for_the_owners_name(open_file, monkeypatch):
    """
    If the disk is so full that the owner's name cannot be written, the lock is still taken, held and released.
    """
    first, second = open_file(), open_file()

    def write(_fd, _data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        assert first.acquire("one")
    with pytest.raises(StoreInUseError, match="is owned by another process"):
        second.acquire("two")
    first.release("one")
    assert second.acquire("two")


def test_ctrl_c_during_the_release_of_the_lock(open_file, monkeypatch):
    """
    If the release of the lock is interrupted, a close completes the release.
    """
    first, second = open_file(), open_file()
    first.acquire("one")

    def truncate(_fd, _length):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", truncate)
        with pytest.raises(KeyboardInterrupt):
            first.release("one")
    first.close()
    assert second.acquire("two")


def test_listing_the_nodes_blocks_no_owner(path, open_file, monkeypatch):
    """
    If another process holds the lock for a moment to list the nodes, an owner tries again, and gets the lock.
    """
    store = open_file()
    looking = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT)
    if _file_lock._CAN_SHARE:
        _file_lock.fcntl.flock(looking, _file_lock.fcntl.LOCK_SH)
    else:
        _file_lock._lock(looking)
    pauses = []

    def sleep(pause_s):
        if not pauses:
            os.close(looking)
        pauses.append(pause_s)

    monkeypatch.setattr(_file_lock, "time", SimpleNamespace(sleep=sleep))
    assert store.acquire("owner")
    assert len(pauses) == 1


@pytest.mark.parametrize(("statement", "is_done"), [("BEGIN IMMEDIATE", True), ("COMMIT", False)])
def test_ctrl_c_around_a_transaction(open_file, monkeypatch, statement, is_done):
    """
    If Ctrl-C interrupts a write at the start of its transaction or just before the commit, no transaction stays open.
    """
    signals = []

    class Interrupted(sqlite3.Connection):
        def execute(self, sql, *values):
            if sql == statement and signals and not is_done:
                raise signals.pop()
            answer = super().execute(sql, *values)
            if sql == statement and signals:
                raise signals.pop()
            return answer

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Interrupted))
    store = open_file()
    signals.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        set_one(store, "lost")
    assert store.apply([a_set("kept")])[0].outcome == "created"
    assert store.count()["pending"] == 1
