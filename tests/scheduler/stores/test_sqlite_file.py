"""
The SQLite store during faults of its file.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_files import noted_connections
from writes import a_set, set_one

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError, StoreFormatError, StoreInUseError
from tickwheel.scheduler import Scheduler
from tickwheel.stores.sqlite import SqliteStore, _schema
from tickwheel.stores.sqlite._errors import store_error
from tickwheel.testing.store_suite._base import changes_of

NOBODY = 65534


def test_text_file_is_refused_and_left_alone(path, open_file):
    """
    A file that is not a database is refused, and the error names it.

    The file does not change.
    """
    path.write_text("these are not the jobs you are looking for\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreFormatError, match=r"jobs.db is not a database: name another file"):
        open_file()
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["jobs.db"]


def test_a_damaged_file_is_reported(path, open_file):
    """
    A database with overwritten pages is reported as damaged, with a remedy.
    """
    store = open_file()
    store.apply([model.Set(model.Job(f"key {i}", 0, i, b"x" * 500)) for i in range(500)])
    store.close()
    damaged = bytearray(path.read_bytes())
    for page in range(1, len(damaged) // 4096):
        damaged[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
    path.write_bytes(damaged)
    with pytest.raises(StoreFormatError, match=r"jobs.db is damaged: restore a backup"):
        open_file().count()


def test_emptied_and_damaged_rows(path, open_file):
    """
    A file without its meta row is refused.

    Text that cannot be decoded is reported as damage to the file, not as an error of the caller.
    """
    store = open_file()
    set_one(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE tickwheel_job SET handler = CAST(x'ff' AS TEXT)")
        with pytest.raises(StoreFormatError, match="is damaged: restore a backup"):
            store.get("key")
        connection.execute("DELETE FROM tickwheel_ledger")
    with pytest.raises(StoreFormatError, match=r"has lost the row of tickwheel_ledger, .*: restore a backup"):
        open_file()


def test_links_in_a_circle(path):
    """
    A symbolic link that leads to itself is refused.
    """
    path.symlink_to(path)
    with pytest.raises(StoreError, match=r"(cannot be reached|cannot be opened) \("):
        SqliteStore(path).open()


def test_lives_beside_other_tables(path, open_file):
    """
    The store adds its tables to a file that already has the tables of an application.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO orders VALUES (7)")
        connection.execute("PRAGMA user_version = 42")
    set_one(open_file())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("SELECT id FROM orders").fetchone() == (7,)
        assert connection.execute("PRAGMA user_version").fetchone() == (42,)


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_another_encoding_is_refused(path, open_file, encoding):
    """
    A file in UTF-16 is refused, because a search for a key prefix would match other keys in this encoding.

    The file stays unchanged.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    before = path.read_bytes()
    with pytest.raises(StoreFormatError, match=f"is in {encoding}, .*: name another file, or make it again in UTF-8"):
        open_file()
    assert path.read_bytes() == before


def test_directory_is_refused(tmp_path):
    """
    A directory is refused as the store's file.
    """
    with pytest.raises(StoreError, match="is a directory: name a file in it"):
        SqliteStore(tmp_path).open()


def test_missing_directory_is_refused(tmp_path):
    """
    A missing directory is refused, and not created.
    """
    with pytest.raises(StoreError, match=r"is in '.*/none', which is not a directory: make the directory first"):
        SqliteStore(tmp_path / "none" / "jobs.db").open()
    assert list(tmp_path.iterdir()) == []


def test_disk_full(open_file):
    """
    If the disk is full, a write raises a transient error that says so.

    No write of its batch is stored. Writes succeed as soon as there is room.
    """
    with noted_connections() as made:
        store = open_file()
    set_one(store)
    connection = made[0]  # the connection that writes
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    large = [model.Set(model.Job(f"large {i}", 0, 0, bytes(10_000))) for i in range(10)]
    with pytest.raises(StoreError, match=r"the disk is full .*: free some space; nothing was written") as caught:
        store.apply(large)
    assert caught.value.is_transient
    assert not caught.value.is_unknown
    assert store.count()["pending"] == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    store.apply(large)
    assert store.count()["pending"] == 11


def test_a_disk_that_is_full_when_a_file_is_opened():
    """
    If there is no room for the index of the log, the error reports a full disk, not a damaged file.
    """
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert "the disk is full" in str(store_error(error, "url"))


def test_statements_number_no_value():
    """
    No statement contains ?1, because Python 3.12 and 3.13 take ?1 for a name and warn each time.
    """
    texts = [file.read_text("utf-8") for file in Path(_schema.__file__).parent.glob("*.sql")]
    assert len(texts) >= 2
    assert [found for text in texts for found in re.findall(r".*\?\d.*", text)] == []


def test_first_use_in_a_transaction(path):
    """
    If a scheduler cannot create its tables because a transaction locks the file, the error says how to create them.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE orders (id)")
        with pytest.raises(StoreError, match="open a new scheduler by 'with' or 'start'"):
            Scheduler(f"sqlite:///{path}").set("k", delay=60, handler="h", conn=connection)
        connection.execute("COMMIT")
        with Scheduler(f"sqlite:///{path}") as scheduler:
            connection.execute("BEGIN IMMEDIATE")
            assert scheduler.set("k", delay=60, target="log", conn=connection).outcome is model.Outcome.CREATED
            connection.execute("COMMIT")


def test_writer_that_does_not_end(path, open_file):
    """
    While another connection holds the write lock, writes wait, and then raise transient errors.

    Reads continue.
    """
    store = open_file(busy_s=0.05)
    set_one(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another connection has been writing for too long") as caught:
        set_one(store)
    assert caught.value.is_transient
    assert store.get("key") is not None
    other.execute("ROLLBACK")
    other.close()
    assert store.apply([a_set()])[0].outcome is model.Outcome.REPLACED


def test_a_write_beside_a_connection_that_commits_without_pause(path, open_file):
    """
    If another connection commits one batch after the other, a write takes place in one of the short pauses.

    The store polls for the lock more often than SQLite itself, which could miss pauses of a millisecond.
    """
    store, is_over, commits = open_file(busy_s=5.0), threading.Event(), []
    set_one(store)

    def commit_on():
        other = sqlite3.connect(path, isolation_level=None)
        while not is_over.is_set():
            other.execute("BEGIN IMMEDIATE")
            is_over.wait(0.12)
            other.execute("COMMIT")
            commits.append(None)
            time.sleep(0.001)
        other.close()

    with ThreadPoolExecutor() as pool:
        busy = pool.submit(commit_on)
        try:
            for _ in range(3):
                time.sleep(0.03)
                set_one(store)
        finally:
            is_over.set()
        busy.result()
    assert len(commits) < 20


def test_replaced_lock_file_ends_the_lease(path, open_file):
    """
    If an owner's lock file was deleted, the owner releases its shards, because other processes cannot see its lock.
    """
    store = open_file()
    store.acquire("owner")
    (path.parent / "jobs.db-lock").unlink()
    assert store.renew("owner") == []
    assert store.renew("owner") == []


def test_a_takeover_that_the_owner_did_not_notice(path, open_file):
    """
    If an owner's lock file was deleted and another process has acquired the shards, the former owner cannot write.
    """
    store, other = open_file(), open_file()
    (lease,) = store.acquire("zombie")
    job = set_one(store)
    assert store.apply([model.Begin(job, lease.epoch)])[0].outcome is model.Outcome.BEGUN
    (path.parent / "jobs.db-lock").unlink()
    (taken,) = other.acquire("heir")
    assert taken.rescued == 1
    assert store.apply([model.Settle(job, lease.epoch)])[0].outcome is model.Outcome.NOT_OWNER
    assert other.get("key").state is model.State.PENDING


def test_a_symbolic_link_uses_the_lock_of_its_file(tmp_path, path, open_file):
    """
    A store that is opened through a symbolic link uses the same lock as the file itself.
    """
    open_file().acquire("owner")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    other = SqliteStore(link)
    other.open()
    with pytest.raises(StoreInUseError, match="is owned by owner, process"):
        other.acquire("another")
    other.close()


@pytest.mark.needs("os.mkfifo")
def test_crash_leftovers_are_taken_over(path, open_file):
    """
    A lock file and a FIFO left behind by a crash are reused.
    """
    (path.parent / "jobs.db-lock").write_text("somebody, process 1 on another machine\n")
    os.mkfifo(path.parent / "jobs.db-wake")
    store, peer = open_file(), open_file()
    (lease,) = store.acquire("owner")
    assert lease.epoch == 1
    set_one(peer)
    assert store.wait_for_change(20.0) is True


def test_another_file_in_the_place_of_the_fifo(path, open_file):
    """
    If another file is in the place of the store's FIFO, the store does not touch that file and still works.

    The store reports that it cannot be notified.
    """
    in_the_way = path.parent / "jobs.db-wake"
    in_the_way.write_text("mine")
    store, peer = open_file(), open_file()
    store.acquire("owner")
    assert store.abilities.has_notify is False
    mark = changes_of(store, 0, 1, 10, None).mark
    set_one(peer)
    assert store.wait_for_change(0.0) is False
    assert [job.key for job in changes_of(store, 0, 1, 10, mark).changed] == ["key"]
    store.release("owner")
    assert in_the_way.read_text() == "mine"


def test_release_leaves_no_fifo(path, open_file):
    """
    A release removes the owner's FIFO.

    The lock file stays, and is empty.
    """
    store = open_file()
    store.acquire("owner")
    assert (path.parent / "jobs.db-wake").exists()
    store.release("owner")
    assert not (path.parent / "jobs.db-wake").exists()
    assert (path.parent / "jobs.db-lock").read_bytes() == b""


def test_clean_close_leaves_one_file(path, open_file):
    """
    The last store to close merges the log into the database.
    """
    store = open_file()
    store.acquire("owner")
    set_one(store)
    store.close()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["jobs.db", "jobs.db-lock"]


def test_synchronous_is_labelled(path, open_file):
    """
    The store reports that the faster mode may lose writes, and SQLite really is in that mode.
    """
    with noted_connections() as made:
        full, normal = open_file(), open_file(synchronous="normal")
    assert full.abilities.loss_window == ""
    assert "power cut" in normal.abilities.loss_window
    assert [each.execute("PRAGMA synchronous").fetchone() for each in made] == [(2,), (1,)]
    with pytest.raises(ValueError, match="synchronous is 'off': pass 'full' or 'normal'"):
        SqliteStore(path, synchronous="off")


@pytest.mark.needs("os.fork")
def test_fork(open_file):
    """
    A forked child can use neither the store nor the store's lock.

    The parent keeps both.
    """
    store = open_file()
    (lease,) = store.acquire("owner")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            store.count()
            os.write(writer, b"counted")
        except StoreError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"was opened before a fork: open it again in the child process" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)
    assert store.renew("owner")[0].epoch == lease.epoch


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o644, 0o555), (0o000, 0o777)])
def test_without_rights(path, open_file, let_through, own_as_nobody, file_mode, folder_mode):  # noqa: PLR0917  fixtures
    """
    If a user may not read the file, or may not write to the file or its folder, the error says so, without a traceback.
    """
    open_file().close()
    let_through(path)
    path.chmod(file_mode)
    path.parent.chmod(folder_mode)
    said = own_as_nobody(path)
    path.parent.chmod(0o755)
    assert said.startswith("StoreError")
    assert any(word in said for word in ("read-only", "denied", "cannot be opened"))


READING = """
    import sys
    from tickwheel.scheduler import Scheduler, StoreError
    scheduler = Scheduler("sqlite:///" + sys.argv[1])
    try:
        print(scheduler.get("key").key, len(scheduler.list().jobs), scheduler.stats()["pending"])
        scheduler.set("other", delay=1, target="log")
    except StoreError as error:
        print(error)
    try:
        scheduler.start()
    except StoreError as error:
        print(error)
"""


def mounted_read_only(path):
    """
    Run the program `READING` with the folder of *path* mounted read-only, and return the printed lines.
    """
    folder, program = path.parent, textwrap.dedent(READING)
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$4"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", folder, sys.executable, program, path]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if answer.returncode == 32 or "unshare" in answer.stderr or "mount" in answer.stderr:
        pytest.skip(f"nothing can be mounted here: {answer.stderr.strip()}")
    assert answer.stderr == ""
    return answer.stdout.splitlines()


@pytest.mark.needs("os.statvfs")
@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare is not installed: util-linux has it")
def test_read_only_mount(path, open_file):
    """
    A file on a read-only disk can be read.

    A write to it raises an error with the reason.
    """
    store = open_file()
    set_one(store)
    store.close()
    read, set_, start = mounted_read_only(path)
    assert read == "key 1 1"
    assert set_ == start
    assert "jobs.db is read-only: the file, its folder or the disk it is on: give this user the right" in set_


@pytest.mark.needs("os.statvfs")
@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare is not installed: util-linux has it")
def test_read_only_mount_after_a_crash(path, open_file):
    """
    On a read-only disk, a file whose log was not merged is refused, because a read would miss the contents of the log.
    """
    set_one(open_file())
    said, *_ = mounted_read_only(path)
    assert "mounted read-only, and jobs.db-wal holds what is not in it yet: copy both" in said


def test_reader_without_the_right_to_write(path, open_file, let_through):
    """
    While another process has the file open, a user who may only read the file can read it.
    """
    set_one(open_file())
    let_through(path)
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    loaded = "os, asyncio, tickwheel.engine.engine, tickwheel.stores.sqlite"
    other = f"import {loaded}; os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    program = other + textwrap.dedent(READING)
    answer = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False, timeout=60
    )
    assert answer.stderr == ""
    assert answer.stdout.splitlines()[0] == "key 1 1"
    assert "jobs.db is read-only" in answer.stdout.splitlines()[1]
