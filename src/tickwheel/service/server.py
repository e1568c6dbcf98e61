"""
Runs the HTTP server: listens on the address, serves, and stops within a time limit.

uvicorn does the work. This module adds signal handlers, and a sweep: a periodic check that cuts off requests that never
begin or never end. At a stop, the module ends live streams, so that the stop waits for requests only. Other code makes
requests cheaper: one sweep replaces the timers of all idle connections, an answer takes one write instead of two, and
the garbage collector skips permanent objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import socket
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from tickwheel.jobs import checks
from tickwheel.scheduler import AsyncScheduler
from tickwheel.service._system import new_event_loop, on_stop_signal, stop_signals_restored
from tickwheel.service.app import Service
from tickwheel.service.errors import AddressError
from tickwheel.service.http import ALWAYS, SEND_AT_ONCE, Reply
from tickwheel.service.options import ServiceOptions
from tickwheel.service.peers import reachable_url
from tickwheel.service.problems import ProblemError
from tickwheel.service.strict_json import encode

__all__ = ["listen", "serve"]

_LOG: Final = logging.getLogger("tickwheel.service")
_NAMED_MAX: Final = 20
"""Maximum number of interrupted firings that the log names after a stop."""
_HEAD_BYTES_MAX: Final = 64 * 1024
_SWEEP_TICKS: Final = 20
"""Number of uvicorn's ticks (a tenth of a second each) between two checks of the connections (sweeps)."""
_IDLE_S: Final = 5.0
"""Maximum seconds without a request before the server closes a connection, unless the request timeout is shorter."""
_YOUNG_MAX: Final = 10_000
"""Number of new objects after which Python's garbage collector examines them."""


def listen(options: ServiceOptions) -> socket.socket:
    host, port = options.host, options.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise AddressError(host, port, error) from None


def serve(scheduler: AsyncScheduler, options: ServiceOptions, on_ready: Callable[[str], object]) -> None:
    """
    Start *scheduler*, serve it until SIGINT or SIGTERM (on Windows Ctrl-C or Ctrl-Break), and close it.

    Register the handlers of *scheduler* first. *on_ready* gets the address as soon as the service answers.

    Raises:
        PublicBindError: If other machines could reach the service without a token.
        AddressError: If the service cannot listen on the address.
        StoreError: If the store cannot be opened.
        StoreInUseError: If another process owns the store.
    """
    options.check()
    with (
        contextlib.closing(listen(options)) as listener,
        stop_signals_restored(),
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        runner.run(_serve(scheduler, options, listener, on_ready))


async def _serve(
    scheduler: AsyncScheduler, options: ServiceOptions, listener: socket.socket, on_ready: Callable[[str], object]
) -> None:
    service = Service(scheduler, options)
    config = uvicorn.Config(
        service,
        http=_Protocol,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=options.connections_max,
        timeout_graceful_shutdown=1,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    host, port = listener.getsockname()[:2]
    scheme = "http" if options.tls_cert is None else "https"
    address = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    scheduler.advertise(
        reachable_url(options, scheme, host, port, str(scheduler.stats()["store"])), service.peers.secret
    )
    request_timeout_s = checks.seconds("request_timeout_s", options.request_timeout_s)
    server = _Server(config, request_timeout_s, lambda: on_ready(address), service.end_streams)
    await scheduler.start()
    try:
        with _collecting_less():
            await server.serve(sockets=[listener])
    finally:
        running = await scheduler.stop(options.stop_timeout_s)
        if running:
            names = ", ".join(firing.fire_id for firing in running[:_NAMED_MAX])
            _LOG.warning("stopped while %d still ran, which will be fired again: %s", len(running), names)


@contextlib.contextmanager
def _collecting_less() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(max(thresholds[0], _YOUNG_MAX), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _late() -> bytes:
    body = encode(ProblemError("slow_request", "the request was not complete in time").document())
    head = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/problem+json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class _Protocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waits_since: float | None = self.loop.time()
        self._idle_since: float | None = None
        self._head_bytes: int | None = 0
        self._context = contextvars.copy_context()
        """The context for a request that had to wait, which would otherwise run in the context of another request."""
        self._has_begun = False
        """True if a request began in the data that are being parsed."""

    def cut_if_late(self, now: float, request_timeout_s: float) -> None:
        if self.transport.is_closing():
            return
        if self._waits_since is not None and self._waits_since < now - request_timeout_s:
            self.transport.write(_late())
            self.transport.close()
        elif self._idle_since is not None and self._idle_since < now - min(_IDLE_S, request_timeout_s):
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._has_begun = False
        super().data_received(data)
        if self._head_bytes is not None and not self._has_begun:  # otherwise data may belong to an earlier request
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._waits_since = self.loop.time()
        self._idle_since = None
        self._head_bytes = 0
        self._has_begun = True

    def on_headers_complete(self) -> None:
        # the answer to an earlier request may have just ended; the connection is not idle, because a body follows
        self._head_bytes = None
        self._idle_since = None
        super().on_headers_complete()
        scope: dict[str, Any] = cast("dict[str, Any]", self.scope)  # ASGI allows a server's own keys
        scope[SEND_AT_ONCE] = partial(_send_at_once, self.cycle)

    def on_message_complete(self) -> None:
        self._waits_since = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            self._context.copy().run(super().on_response_complete)
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since = self.loop.time()


def _send_at_once(cycle: RequestResponseCycle, reply: Reply) -> bool:
    if cycle.transport.is_closing():  # uvicorn detects it only for the last request; earlier ones may be open
        cycle.disconnected = True
    if not cycle.keep_alive or cycle.flow.write_paused or cycle.disconnected or cycle.scope["method"] == "HEAD":
        return False
    parts = [_head(reply.status, reply.kind), b"content-length: %d\r\n" % len(reply.body)]
    for name, value in reply.extra:
        if name != b"etag":
            return False
        parts += (b"etag: ", value, b"\r\n")
    for name, value in cycle.default_headers:
        parts += (name, b": ", value, b"\r\n")
    parts += (b"\r\n", reply.body)
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join(parts))
    cycle.message_event.set()
    cycle.on_response()
    return True


@lru_cache(64)
def _head(status: int, kind: bytes) -> bytes:
    return STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % header for header in ((b"content-type", kind), *ALWAYS))


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        request_timeout_s: float,
        on_ready: Callable[[], object],
        on_stop: Callable[[], object],
    ) -> None:
        super().__init__(config)
        self._request_timeout_s = request_timeout_s
        self._on_ready = on_ready
        self._on_stop = on_stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # a signal must not end the process before the scheduler is stopped
        on_stop_signal(self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _SWEEP_TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, _Protocol):
                    connection.cut_if_late(now, self._request_timeout_s)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)
