"""
A SQLite store extends its log with zeros in advance, so that small commits do not have to extend the file.
"""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest
from sqlite_files import is_sound, value

from tickwheel.jobs import model
from tickwheel.stores.sqlite import SqliteStore

FAR = 4 * 10**12


def set_one(store, number, payload=b""):
    """
    Set one job.
    """
    return store.apply([model.Set(model.Job(f"key {number}", 0, FAR + number, payload))])


def log_of(path):
    """
    Return the path of the log of the file at *path*.
    """
    return path.with_name(f"{path.name}-wal")


@pytest.fixture
def store(tmp_path):
    """
    Return an open store with an owner.
    """
    with closing(SqliteStore(tmp_path / "jobs.db")) as store:
        store.open()
        store.acquire("owner")
        yield store


def test_small_commits_seldom_make_the_file_larger(store):
    """
    200 commits of one job each change the size of the log file fewer than 20 times.
    """
    sizes = set()
    for number in range(200):
        set_one(store, number)
        sizes.add(log_of(store.path).stat().st_size)
    assert len(sizes) < 20
    assert sum(store.count().values()) == 200


def test_a_large_commit_writes_no_zeros(store):
    """
    A large commit extends the log only by the pages that it writes, and adds no zeros.
    """
    for number in range(3):
        set_one(store, number)
    set_one(store, 3, bytes(3_000_000))
    before = log_of(store.path).stat().st_size
    set_one(store, 4)
    assert log_of(store.path).stat().st_size - before < 100_000


def test_two_processes_keep_each_others_commits(store):
    """
    The zeros that the owner writes at the end of the log never replace a commit of another process.
    """
    with closing(SqliteStore(store.path)) as other:
        other.open()
        for number in range(150):
            set_one((store, other)[number % 3 == 0], number)
    assert value(store.path, "SELECT count(*) FROM tickwheel_job") == 150
    assert is_sound(store.path)


def test_a_file_is_read_again_with_its_zeros(store, tmp_path):
    """
    A database that is copied with its log, in the state that a crash would leave, contains every job.
    """
    for number in range(40):
        set_one(store, number)
    copy = tmp_path / "copy.db"
    shutil.copy(store.path, copy)
    shutil.copy(log_of(store.path), log_of(copy))
    assert not log_of(copy).read_bytes()[-4096:].strip(b"\0")
    with closing(SqliteStore(copy)) as found:
        found.open()
        assert sum(found.count().values()) == 40
        set_one(found, 40)
        assert sum(found.count().values()) == 41
    assert is_sound(copy)


def test_a_log_that_cannot_be_opened_is_left(store, monkeypatch):
    """
    If the log cannot be opened to extend it with zeros, it stays as it is, and commits still succeed.
    """

    def refuse(*_args, **_options):
        raise OSError

    monkeypatch.setattr("tickwheel.stores.sqlite._log_space.open", refuse, raising=False)
    sizes = set()
    for number in range(20):
        set_one(store, number)
        sizes.add(log_of(store.path).stat().st_size)
    assert len(sizes) == 20
    assert sum(store.count().values()) == 20
