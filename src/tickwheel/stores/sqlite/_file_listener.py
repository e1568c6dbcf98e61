"""
The channel `FILE-wake` beside a database, by which other processes notify the owner of their writes.
"""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

from tickwheel.stores._wakeable import WakeableWait
from tickwheel.stores.sqlite._channels import Channel, notify_at, open_channel
from tickwheel.threads import Lock

__all__ = ["FileListener", "notify"]


class FileListener:
    def __init__(self, database: Path) -> None:
        self._path = _path_of(database)
        self._database = database
        self._channel: Channel | None = None
        self._lock = Lock()
        self._wait = WakeableWait()

    def listen(self) -> bool:
        self._channel = open_channel(self._path, stat.S_IMODE(self._database.stat().st_mode))
        return self._channel is not None

    def listen_again(self) -> bool:
        if self._channel is None or self._channel.is_named():
            return False
        self.stop()
        return self.listen()

    def wait(self, timeout_s: float) -> bool:
        with self._wait.entered() as is_open:
            channel = self._channel
            if channel is not None and is_open:
                return bool(self._wait.wait(timeout_s, channel.fileno())) and channel.receive()
            if is_open:
                self._wait.wait(timeout_s)
            return False

    def wake(self) -> None:
        self._wait.wake()

    def stop(self) -> None:
        with self._lock:
            channel, self._channel = self._channel, None
            if channel is None:
                return
            with suppress(OSError):
                if channel.is_named():  # otherwise the file belongs to the next owner and must stay
                    self._path.unlink()
        self._wait.retire(channel)

    def close(self) -> None:
        self.stop()
        self.wake()
        self._wait.close()


def notify(database: Path) -> None:
    notify_at(_path_of(database))


def _path_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wake")
