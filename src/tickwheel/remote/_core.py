from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel.errors import ClosedError
from tickwheel.host.lifecycle import Lifecycle
from tickwheel.host.options import SchedulerOptions
from tickwheel.host.runtime import Runtime
from tickwheel.host.standby import check_role
from tickwheel.jobs import checks
from tickwheel.jobs.errors import StoreError, UnsupportedError
from tickwheel.jobs.explanation import Explanation
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.observe.events import EventHook
from tickwheel.remote._client import RemoteClient
from tickwheel.remote._puller import Puller
from tickwheel.remote._pulls import RemotePulls
from tickwheel.remote.transport import Transport
from tickwheel.stores import Node
from tickwheel.targets import Firing
from tickwheel.targets.handler import HandlerTarget

__all__ = ["RemoteCore"]

_TOKEN: Final = "TICKWHEEL_TOKEN"  # noqa: S105  a name
_TIMEOUT_S: Final = 10.0


class RemoteCore:
    """
    The core that `Scheduler` and `AsyncScheduler` share, for a service at *url*.
    """

    def __init__(self, url: str, options: SchedulerOptions, token: str | None, timeout: float | None) -> None:
        timeout_s = _TIMEOUT_S if timeout is None else checks.span_ms("timeout", timeout) / 1000
        self._transport = Transport(url, token or os.environ.get(_TOKEN) or None, timeout_s)
        self._options = options
        self._lifecycle = Lifecycle(Runtime())
        self._puller: Puller | None = None
        self.handlers = HandlerTarget(checks.limit_s("timeout_s", options.timeout_s))
        self.client = RemoteClient(self._transport, self.handlers.policy)
        self.pulls = RemotePulls(self._transport)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        return f"{self._transport.url} {self._lifecycle}"

    @property
    def _is_inherited(self) -> bool:
        return self._puller is not None and self._puller.pid != os.getpid()

    @property
    def is_firing(self) -> bool:
        """
        True while the handlers of this client pull jobs; False in the child of a fork.
        """
        return self._lifecycle.is_started and not self._is_inherited

    is_ready = is_firing

    @property
    def is_in_use(self) -> bool:
        """
        True while this process has threads or connections for the service.
        """
        return self.is_firing or self._transport.is_open

    def subscribe(self, hook: EventHook, *, routine: bool = True) -> Callable[[], None]:
        """
        Raise an error, because events are reported only in the process that fires the jobs.
        """
        events = "firings" if routine else "failures"
        what, remedy = f"{hook!r} cannot be called with a service's {events}", "subscribe where the service is started"
        raise UnsupportedError(what, remedy)

    def recent(self, after: int) -> list[FiringRecord]:
        """
        Raise an error, because firings are reported only in the process that fires the jobs.
        """
        what, remedy = f"the firings after {after} are not known here", "ask the service: GET /v1/firings"
        raise UnsupportedError(what, remedy)

    def start(self, loop: asyncio.AbstractEventLoop | None, role: str) -> None:
        check_role(role)
        if self._is_inherited:
            what = f"handlers pulled from {self._transport.url} before a fork"
            raise StoreError(what, "make a new scheduler in the child process")
        self._lifecycle.start(lambda: self._start(loop))

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._transport.submit(self._transport.document("GET", "/readyz")).result()
        self._puller = Puller(self.pulls, self.handlers, self._options, loop)

    def is_inside(self) -> bool:
        """
        Return True if the caller is a handler of this client. A stop must not wait for that handler.
        """
        return self._puller is not None and self._puller.is_inside()

    def stop(self, timeout: float | None, *, is_inside: bool) -> list[Firing]:
        """
        Stop pulling, let handlers finish, and close the connections.

        In the child of a fork, only the connections are closed, because running handlers belong to the parent.
        """
        if self._is_inherited:
            self._transport.close()
            return []
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._lifecycle.stop(lambda: self._stop(deadline), timeout, is_inside=is_inside)

    def _stop(self, deadline: float | None) -> list[Firing]:
        try:
            return [] if self._puller is None else self._puller.stop(deadline)
        finally:
            self._transport.close()

    def explain(self, key: str) -> Explanation | None:
        """
        Return the reason why the job of *key* has not run yet.
        """
        return self.client.explain(key)

    def nodes(self) -> Sequence[Node]:
        return self.client.nodes()

    def advertise(self, url: str, secret: str) -> None:
        """
        Raise an error, because a client has no service of its own.
        """
        what, remedy = "advertise() was called on the client of a service", "call it where the jobs are fired"
        raise UnsupportedError(what, remedy)

    def stats(self, *, with_store: bool) -> dict[str, Any]:
        if not self._lifecycle.is_open:
            raise ClosedError("scheduler")
        return self.client.stats()
