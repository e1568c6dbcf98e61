"""
Binds, serves, and stops within its time.

uvicorn does the work. Added here is what it leaves out: a request that never comes, or never ends, is cut off;
signals are ours; and live streams are ended first, so that a stop waits only for requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service._system import new_event_loop, on_stop_signal, stop_signals_restored
from tickwheel.service.app import Service
from tickwheel.service.errors import AddressError
from tickwheel.service.options import ServiceOptions
from tickwheel.service.problems import ProblemError
from tickwheel.service.strict_json import encode

__all__ = ["listen", "serve"]

_HEAD_BYTES_MAX: Final = 64 * 1024
_SWEEP_TICKS: Final = 20
"""uvicorn ticks ten times a second: late connections are looked for every two seconds."""


def listen(options: ServiceOptions) -> socket.socket:
    """
    Return a socket that listens where *options* say, before anything else is started.

    Raises:
        AddressError: If the address is taken, not ours, or no address.
    """
    host, port = options.host, options.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise AddressError(host, port, error) from None


def serve(scheduler: AsyncScheduler, options: ServiceOptions, on_ready: Callable[[str], object]) -> None:
    """
    Start *scheduler*, serve it until SIGINT or SIGTERM (on Windows Ctrl-C or Ctrl-Break), and stop it.

    Args:
        scheduler: With its handlers registered; closed on return.
        options: See there.
        on_ready: Called with the service's address when it answers.

    Raises:
        PublicBindError: If other machines would reach the service without a token.
        AddressError: If the address cannot be listened on.
        StoreError: If the store cannot be had; `StoreInUseError` if another process owns it.
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
    server = _Server(config, options.request_timeout_s, lambda: on_ready(address), service.end_streams)
    await scheduler.start()
    try:
        await server.serve(sockets=[listener])
    finally:
        await scheduler.stop(options.stop_timeout_s)


def _late() -> bytes:
    """
    Return the answer to a request that did not arrive in time, for whom no operation is there to answer.
    """
    body = encode(ProblemError("slow_request", "the request was not complete in time").document())
    head = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/problem+json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class _Protocol(HttpToolsProtocol):
    """
    A connection that knows since when it waits for a request to be whole, and how long the head has become.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waits_since: float | None = self.loop.time()
        self._head_bytes: int | None = 0

    def cut_if_late(self, begun_before: float) -> None:
        """
        Answer and close, if a request that should have come whole began before then.
        """
        if self._waits_since is not None and self._waits_since < begun_before and not self.transport.is_closing():
            self.transport.write(_late())
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """
        Parse *data*, and end the connection when the head grows without end.
        """
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """
        Begin to wait.
        """
        super().on_message_begin()
        self._waits_since = self.loop.time()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """
        Stop counting: what follows is the body.
        """
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """
        End the wait.
        """
        self._waits_since = None
        super().on_message_complete()


class _Server(uvicorn.Server):
    """
    uvicorn's server, with our signals, our sweep and our order of stopping.
    """

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
        """
        Stop on signals, and let the process go on afterwards: the scheduler has to be stopped, too.
        """
        on_stop_signal(self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """
        Listen, and say so.
        """
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """
        Cut off connections that have waited too long for a request.
        """
        if counter % _SWEEP_TICKS == 0:
            late = asyncio.get_running_loop().time() - self._request_timeout_s
            for connection in list(self.server_state.connections):
                if isinstance(connection, _Protocol):
                    connection.cut_if_late(late)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """
        End the live streams, then wait for the requests.
        """
        self._on_stop()
        await super().shutdown(sockets)
