"""
A wrapper of a real store that fails on request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tickwheel.jobs.errors import StoreError
from tickwheel.stores.contract import Store

__all__ = ["FaultyStore"]


class FaultyStore:
    """
    A wrapper of a real store that injects faults.

    Attributes:
        calls: The names of all calls so far, in order.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._faults: dict[str, list[tuple[bool, StoreError]]] = {}
        self._gate = threading.Event()
        self._gate.set()
        self._entered = threading.Semaphore(0)
        self.calls: list[str] = []

    def __repr__(self) -> str:
        return f"<FaultyStore over {self._store!r}>"

    def fail(
        self, call: str, times: int = 1, *, after: bool = False, is_transient: bool = True, is_unknown: bool = False
    ) -> None:
        """
        Let the next *times* calls of a method raise a `StoreError`.

        With *after*, a call takes effect before it raises. The other arguments are attributes of the error.
        """
        error = StoreError(f"{call} failed", "try again", is_transient=is_transient, is_unknown=is_unknown)
        self._faults.setdefault(call, []).extend([(after, error)] * times)

    @contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """
        Hold all calls of `apply` until the end of the block. The yielded function waits for the next held call.
        """
        self._gate.clear()
        try:
            yield lambda: self._entered.acquire(timeout=20.0)
        finally:
            self._gate.set()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name == "apply" and not self._gate.is_set():
                self._entered.release()
                self._gate.wait()
            faults = self._faults.get(name)
            if not faults:
                return value(*args, **kwargs)
            after, error = faults.pop(0)
            if after:
                value(*args, **kwargs)
            raise error

        return call
