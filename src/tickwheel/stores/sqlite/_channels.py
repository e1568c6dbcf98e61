"""
The channel by which other processes notify a file's owner of their writes: a FIFO, or a UDP port on Windows.

Notifications are hints, so losing one does no harm.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, Self

from tickwheel.stores.sqlite._owner_lock import is_same

__all__ = ["Channel", "notify_at", "open_channel"]


class Channel(Protocol):
    def fileno(self) -> int: ...

    def is_named(self) -> bool: ...

    def receive(self) -> bool: ...

    def close(self) -> None: ...


class FifoChannel:
    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def make(cls, path: Path, mode: int) -> Self | None:
        with suppress(FileNotFoundError):
            if path.is_fifo():  # left by an owner that died or lost the lock; that owner may still remove it
                path.unlink()
        with suppress(FileExistsError):
            os.mkfifo(path)
            path.chmod(mode)
        # Opened for writing, too. Otherwise reads would report the end of the file whenever the last writer closes.
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            return cls(path, fd)
        os.close(fd)
        return None  # another file has this name

    @staticmethod
    def notify(path: Path) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, b"\0")
        finally:
            os.close(fd)

    def fileno(self) -> int:
        return self._fd

    def is_named(self) -> bool:
        return is_same(self._fd, self._path)

    def receive(self) -> bool:
        with suppress(BlockingIOError):
            os.read(self._fd, 65536)
        return True

    def close(self) -> None:
        os.close(self._fd)


class PortChannel:
    """
    A loopback UDP port. Its file contains the port, and a secret that every notification must repeat.
    """

    _HEAD: Final = "tickwheel rings at"
    _LINE_MAX: Final = 100

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0)
        self._word = secrets.token_hex(16)
        self._line = f"{self._HEAD} {self._socket.getsockname()[1]} {self._word}\n"

    @classmethod
    def make(cls, path: Path, mode: int) -> Self | None:
        if path.exists() and not cls._line_of(path).startswith(cls._HEAD):
            return None  # another file has this name
        channel = cls(path)
        try:
            path.touch(mode)
            path.write_text(channel._line, "ascii")
        except BaseException:
            channel.close()
            raise
        return channel

    @classmethod
    def notify(cls, path: Path) -> None:
        port, word = cls._line_of(path).removeprefix(cls._HEAD).split()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(word.encode(), ("127.0.0.1", int(port)))

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_named(self) -> bool:
        try:
            return self._line_of(self._path) == self._line
        except OSError:
            return False

    def receive(self) -> bool:
        has_come = False
        with suppress(OSError):  # BlockingIOError: no more messages
            while True:
                has_come |= self._socket.recv(self._LINE_MAX) == self._word.encode()
        return has_come

    def close(self) -> None:
        self._socket.close()

    @classmethod
    def _line_of(cls, path: Path) -> str:
        if not path.is_file():
            return ""
        with path.open(encoding="ascii", errors="replace") as file:
            return file.read(cls._LINE_MAX)


_Channel: Final = FifoChannel if hasattr(os, "mkfifo") else PortChannel


def open_channel(path: Path, mode: int) -> Channel | None:
    with suppress(OSError):
        return _Channel.make(path, mode)
    return None


def notify_at(path: Path) -> None:
    with suppress(OSError, ValueError):  # ENXIO: no reader; EAGAIN: already notified; a half-written file
        _Channel.notify(path)
