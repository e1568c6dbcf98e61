"""
A connection with time limits on the client, because an unreachable server cannot enforce its own limits.
"""

from __future__ import annotations

import math
import select
import selectors
import time
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tickwheel.stores.postgres._prepared import Prepared

if TYPE_CHECKING:
    import psycopg

__all__ = ["ready", "timed_connection"]

_T = TypeVar("_T")

_poll: Final[Any] = select.poll if hasattr(selectors, "PollSelector") else None
"""`select.poll`, or None if the system lacks it or gevent has removed it."""
_FLAGS: Final = (
    {}
    if _poll is None
    else {
        selectors.EVENT_READ: select.POLLIN,
        selectors.EVENT_WRITE: select.POLLOUT,
        selectors.EVENT_READ | selectors.EVENT_WRITE: select.POLLIN | select.POLLOUT,
    }
)
_CANCEL_S: Final = 1.0
"""Time limit of the request to cancel a statement."""


@cache
def timed_connection() -> type[psycopg.Connection[tuple[Any, ...]]]:
    import psycopg  # noqa: PLC0415 on use: the extra is optional

    class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
        """
        A driver connection that is closed when an answer does not come in time.

        *call_s* is the time limit of one call in seconds. *left_s* is the time left for the current call, or None if
        each statement is a call of its own.
        """

        call_s = 10.0
        left_s: float | None = None
        has_warned = False

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.add_notice_handler(self._hear)
            self.prepared = Prepared(self)

        def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
            self.has_warned = self.has_warned or notice.severity_nonlocalized == "WARNING"

        def wait(self, gen: Generator[Any, Any, _T], *_: Any, **__: Any) -> _T:
            left_s = self.call_s if self.left_s is None else self.left_s
            try:
                events = next(gen)
                while True:
                    start = time.monotonic()
                    happened = ready(self.pgconn.socket, events, left_s)
                    left_s -= time.monotonic() - start
                    if self.left_s is not None:
                        self.left_s = left_s
                    if happened:
                        events = gen.send(happened)
                        continue
                    self.pgconn.finish()
                    what = f"the server did not answer within {self.call_s:g} s"
                    raise psycopg.errors.OperationalError(what)
            except StopIteration as end:
                result: _T = end.value
                return result
            except (KeyboardInterrupt, SystemExit):
                self.stop()
                raise
            finally:
                with suppress(Exception):  # an abandoned operation may raise once more, on a lost connection
                    gen.close()

        def stop(self) -> None:
            with suppress(Exception):
                self.cancel_safe(timeout=_CANCEL_S)

    return TimedConnection


def ready(fileno: int, events: int, timeout_s: float) -> int:
    # *events* are constants of `selectors`. A plain poll costs a third of a selector.
    timeout_s = max(timeout_s, 0.0)
    if _poll is None:
        with selectors.SelectSelector() as selector:
            selector.register(fileno, events)
            found = selector.select(timeout_s)
        return found[0][1] if found else 0
    poll = _poll()
    poll.register(fileno, _FLAGS[events])
    happened = poll.poll(math.ceil(timeout_s * 1e3))
    if not happened:
        return 0
    flags = happened[0][1]  # after an error or a hang-up, the driver's next read or write reports it
    return events & (
        bool(flags & ~select.POLLOUT) * selectors.EVENT_READ | bool(flags & ~select.POLLIN) * selectors.EVENT_WRITE
    )
