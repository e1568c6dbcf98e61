"""
The bell beside a database: the owner waits for it, and other processes ring when they have written.
"""

from __future__ import annotations

import stat
import threading
from contextlib import suppress
from pathlib import Path

from tickwheel.scheduler.stores._wakeable import WakeableWait
from tickwheel.scheduler.stores.sqlite._ears import Ears, hang_ears, ring_at

__all__ = ["Bell", "ring"]


class Bell:
    """
    Hears who rings at `FILE-wake`, while it hangs there.
    """

    def __init__(self, database: Path) -> None:
        """
        Listen to nobody but `wake` yet.
        """
        self._path = _path_of(database)
        self._database = database
        self._ears: Ears | None = None
        self._wait = WakeableWait()
        self._lock = threading.Lock()
        self._waiting = 0
        self._old: list[Ears | WakeableWait] = []
        self._is_closed = False

    def hang(self) -> bool:
        """
        Listen to others; return whether the file system lets us.
        """
        self._ears = hang_ears(self._path, stat.S_IMODE(self._database.stat().st_mode))
        return self._ears is not None

    def hang_again(self) -> bool:
        """
        Listen to others where they ring now, if that is not where they rang before; return whether it was not.
        """
        if self._ears is None or self._ears.is_named():
            return False
        self.take_down()
        return self.hang()

    def wait(self, timeout_s: float) -> bool:
        """
        Block until somebody rings, `wake`, `close` or the timeout; return whether somebody rang.
        """
        with self._lock:
            if self._is_closed:
                return False
            self._waiting += 1
            ears = self._ears
        try:
            if ears is None:
                self._wait.wait(timeout_s)
                return False
            return bool(self._wait.wait(timeout_s, ears.fileno())) and ears.hear()
        finally:
            with self._lock:
                self._waiting -= 1
                self._tidy()

    def wake(self) -> None:
        """
        End a `wait`, this one or the next.
        """
        self._wait.wake()

    def take_down(self) -> None:
        """
        Listen to nobody any more; the next owner's bell stays.
        """
        with self._lock:
            if self._ears is not None:
                with suppress(OSError):
                    if self._ears.is_named():
                        self._path.unlink()
                self._old.append(self._ears)
                self._ears = None
                self._tidy()

    def close(self) -> None:
        """
        End a `wait`, and give the file descriptors back when the last one has left. Twice is allowed.
        """
        self.take_down()
        self.wake()
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._old.append(self._wait)
                self._tidy()

    def _tidy(self) -> None:
        # A descriptor that somebody polls may not be closed: its number would soon be another file's.
        while self._old and not self._waiting:
            self._old.pop().close()


def ring(database: Path) -> None:
    """
    Notify the owner of *database*, if there is one, that something was written.
    """
    ring_at(_path_of(database))


def _path_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wake")
