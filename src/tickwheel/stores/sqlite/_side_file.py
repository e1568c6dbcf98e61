"""
The files beside a database: `FILE-lock` and `FILE-reserve`.

They get the permissions of the database, as SQLite's log does. In a folder that other users may write, a file may have
been replaced by a link; the link's target is not touched.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from tickwheel.jobs.errors import StoreError

__all__ = ["make_side_file", "open_side_file"]

_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""O_NONBLOCK: opening a FIFO must not block. O_NOFOLLOW: links are refused."""


def open_side_file(path: Path, flags: int = 0, mode: int = 0) -> int:
    try:
        fd = os.open(path, _FLAGS | flags, mode)
    except OSError as error:
        if path.is_symlink():
            raise _not_ours(path) from error
        raise
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return fd
    os.close(fd)
    raise _not_ours(path)


def make_side_file(path: Path, database: Path) -> int:
    whose = database.stat()
    mode = stat.S_IMODE(whose.st_mode)
    fd = open_side_file(path, os.O_CREAT, mode)
    with suppress(OSError):  # it belongs to another user, who chose its permissions
        if hasattr(os, "fchmod") and stat.S_IMODE(os.fstat(fd).st_mode) != mode:  # the umask has removed some
            os.fchmod(fd, mode)
        if hasattr(os, "fchown") and os.geteuid() == 0:
            os.fchown(fd, whose.st_uid, whose.st_gid)
    return fd


def _not_ours(path: Path) -> StoreError:
    what = f"{path} is a link or not a regular file, and what it leads to was left as it is"
    return StoreError(what, "remove it, and let none but those who use the database write its folder")
