"""
The side files of a SQLite database: their owner and permissions, and what happens if another file is in their place.
"""

from __future__ import annotations

import errno
import os
import stat

import pytest
from writes import set_one

from tickwheel.jobs.errors import StoreError, StoreFullError
from tickwheel.stores.sqlite import SqliteStore, _owner_lock, _reserve

NOBODY = 65534


def beside(path, name):
    """
    Return the path of a side file of the database.
    """
    return path.with_name(f"{path.name}-{name}")


@pytest.mark.needs("os.O_NOFOLLOW")
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_are_not_followed(path, tmp_path, open_file, link):
    """
    A link in place of the lock file is refused, and the error names it.

    A link in place of the file that reserves disk space is replaced. The targets of the links stay unchanged.
    """
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("precious")
    second.write_bytes(bytes(5_000_000))
    link(second, beside(path, "reserve"))
    store = open_file()
    link(first, beside(path, "lock"))
    with pytest.raises(StoreError, match=r"jobs\.db-lock is a link or not a regular file, .*: remove it"):
        store.acquire("owner")
    beside(path, "lock").unlink()
    store.acquire("owner")
    set_one(store)
    assert stat.S_ISREG(beside(path, "reserve").lstat().st_mode)
    store.release("owner")
    assert (first.read_text(), second.stat().st_size) == ("precious", 5_000_000)


@pytest.mark.needs("os.mkfifo")
def test_a_fifo_in_place_of_the_lock(path, open_file):
    """
    A FIFO in place of the lock is refused at once.

    The store does not wait until another process opens the FIFO.
    """
    store = open_file()
    os.mkfifo(beside(path, "lock"))
    with pytest.raises(StoreError, match=r"jobs\.db-lock is a link or not a regular file"):
        store.acquire("owner")


@pytest.mark.needs("os.fchmod")
def test_rights_of_side_files(path, open_file):
    """
    Every user who may write the database may also write its side files, for any umask of the owner.
    """
    store = open_file()
    path.chmod(0o666)
    before = os.umask(0o077)
    try:
        store.acquire("owner")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(beside(path, name).stat().st_mode) for name in ("lock", "reserve")]
    assert modes == [0o666, 0o666]


@pytest.mark.needs("os.chown")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make files for another user")
def test_files_of_root(path, open_file):
    """
    Side files made by root belong to the owner of the database.
    """
    store = open_file()
    os.chown(path, NOBODY, NOBODY)
    store.acquire("owner")
    assert [beside(path, name).stat().st_uid for name in ("lock", "reserve")] == [NOBODY, NOBODY]


@pytest.mark.needs("os.geteuid")
@pytest.mark.parametrize(
    ("name", "said"), [("reserve", "created"), ("lock", "right to write jobs.db-lock and its folder")]
)
def test_files_of_another_user(path, let_through, own_as_nobody, name, said):
    """
    If the file that reserves disk space belongs to another user, it is replaced.

    If the lock file belongs to another user and cannot be written, the error names the file and the remedy.
    """
    store = SqliteStore(path)
    store.open()
    store.close()
    let_through(path)
    beside(path, name).touch()
    beside(path, name).chmod(0)
    if os.geteuid() == 0:
        for each in (path, path.parent):
            os.chown(each, NOBODY, NOBODY)
    assert said in own_as_nobody(path)


def test_a_reserve_that_cannot_be_made(open_file, monkeypatch):
    """
    If the file that reserves disk space cannot be made, the error says "full" only for a full disk.
    """
    store, codes = open_file(), [errno.EDQUOT, errno.EACCES]

    def refuse(*_):
        raise OSError(codes[0], os.strerror(codes[0]))

    monkeypatch.setattr(_reserve, "_fill", refuse)
    store.acquire("owner")
    with pytest.raises(StoreFullError, match="the disk is full"):
        set_one(store)
    codes.pop(0)
    with pytest.raises(StoreError, match=r"jobs\.db-reserve .*: remove it"):
        set_one(store)


def test_a_lock_that_cannot_be_taken(path):
    """
    A file system without locks and a refused lock raise different errors.

    Both name the remedy.
    """
    unsupported = _owner_lock.lock_error(path, OSError(95, "Operation not supported"))
    assert "cannot be locked (Operation not supported): put the file on a local disk" in str(unsupported)
    denied = _owner_lock.lock_error(path, PermissionError(13, "Permission denied"))
    assert "access is denied" in str(denied)
