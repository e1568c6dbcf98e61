from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tickwheel.errors import ClosedError
from tickwheel.host.partitioned_writer import PartitionedWriter
from tickwheel.host.runtime import Runtime
from tickwheel.host.writer import Writer
from tickwheel.jobs.errors import StoreError

__all__ = ["LazyStore"]


class LazyStore:
    """
    Opens a store once, in the process that uses it first. *writer* is None while the store is not open.
    """

    def __init__(self, url: str, make: Callable[[], Writer | PartitionedWriter], runtime: Runtime) -> None:
        self._url, self._make = url, make
        self._lock = runtime.lock()
        self._pid: int | None = None
        self._is_closed = False
        self.writer: Writer | PartitionedWriter | None = None

    @property
    def is_inherited(self) -> bool:
        return self._pid is not None and self._pid != os.getpid()

    def check_process(self) -> None:
        if self.is_inherited:
            what = f"{self._url} was opened before a fork"
            raise StoreError(what, "make a new scheduler in the child process")

    def open(self) -> Writer | PartitionedWriter:
        self.check_process()
        with self._lock:
            if self._is_closed:
                raise ClosedError("scheduler")
            if self.writer is None:
                self._pid = os.getpid()
                try:
                    self.writer = self._make()
                except BaseException:
                    self._pid = None
                    raise
            return self.writer

    @contextmanager
    def closing(self) -> Iterator[Writer | PartitionedWriter | None]:
        with self._lock:
            self._is_closed = True
            writer, self.writer = self.writer, None
            yield writer
