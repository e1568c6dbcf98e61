"""
Minimal HTTP/1.1, because a measuring client should leave most of the machine to the service. httptools parses answers.
"""

from __future__ import annotations

import asyncio
import importlib
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from tickwheel.errors import MissingExtraError, TickwheelError

__all__ = ["Answer", "Client", "Delivery", "Receiver", "UrlError"]

NO_ANSWER: Final = 0
_SWEEP_S: Final = 0.5
_REASONS: Final = {200: "OK", 503: "Service Unavailable"}


class UrlError(TickwheelError, ValueError):
    def __init__(self, url: str) -> None:
        super().__init__(f"{url!r} is not the address of a service: write it as in http://127.0.0.1:8765")


class Answer(NamedTuple):
    """
    The status (0 without an answer), the body or the reason why there is no answer, and the time of the request.
    """

    status: int
    body: bytes
    sent_at: float


Done = Callable[[Answer], None]


class _Asked(NamedTuple):
    request: bytes
    done: Done


class Client:
    """
    Sends requests to a service over several connections, one at a time on each. Further requests wait in a queue.

    *timeout_s* is the maximum time from the sending of a request to its answer.
    """

    def __init__(self, url: str, *, token: str | None = None, connections: int = 64, timeout_s: float = 10.0) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise UrlError(url) from None
        if parts.scheme not in {"http", "https"} or not host or parts.path.strip("/") or parts.query:
            raise UrlError(url)
        self.url = url
        self._is_tls = parts.scheme == "https"
        self._host, self._port = host, port or (443 if self._is_tls else 80)
        authorization = f"authorization: Bearer {token}\r\n" if token else ""
        self._head = f" HTTP/1.1\r\nhost: {parts.netloc}\r\n{authorization}content-type: application/json\r\n"
        self._connections_max = connections
        self._timeout_s = timeout_s
        self._parser = _httptools().HttpResponseParser
        self._line: deque[_Asked] = deque()
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sweeper = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self._sweeper, *self._opening):
            if task is not None:
                task.cancel()
        for connection in list(self._open):
            connection.end("the client was closed")

    def submit(self, method: str, path: str, body: str | None, done: Done) -> None:
        """
        Send a request, and call *done* with the answer, but never within this call.
        """
        content = (body or "").encode()
        head = f"{method} {path}{self._head}content-length: {len(content)}\r\n\r\n"
        self._line.append(_Asked(head.encode() + content, done))
        self._send()

    def give_up(self) -> None:
        line, self._line = self._line, deque()
        for asked in line:
            asked.done(Answer(NO_ANSWER, b"was never sent", asyncio.get_running_loop().time()))
        for connection in list(self._open - set(self._idle)):
            connection.end("timed out")

    async def ask(self, method: str, path: str, body: str | None = None) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answer: Answer) -> None:
            if not answered.done():  # the caller no longer waits
                answered.set_result(answer)

        self.submit(method, path, body, done)
        return await answered

    def _send(self) -> None:
        while self._line and self._idle:
            connection = self._idle.pop()
            connection.send(self._line.popleft())
        room = self._connections_max - len(self._open) - len(self._opening)
        for _ in range(min(room, len(self._line) - len(self._opening))):
            task = asyncio.get_running_loop().create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                await loop.create_connection(
                    lambda: _Connection(self, self._parser), self._host, self._port, ssl=self._is_tls or None
                )
        except OSError as error:
            if self._line:
                reason = "cannot be reached" if isinstance(error, ConnectionError) else str(error) or "timed out"
                self._line.popleft().done(Answer(NO_ANSWER, reason.encode(), loop.time()))

    def opened(self, connection: _Connection) -> None:
        self._open.add(connection)
        self.free(connection)

    def free(self, connection: _Connection) -> None:
        self._idle.append(connection)
        self._send()

    def lost(self, connection: _Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._send()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            late = loop.time() - self._timeout_s
            for connection in list(self._open):
                if connection.is_waiting_since(late):
                    connection.end("timed out")


class _Connection(asyncio.Protocol):
    def __init__(self, client: Client, parser: Callable[[object], Any]) -> None:
        self._client = client
        self._new_parser = parser
        self._loop = asyncio.get_running_loop()
        self._asked: _Asked | None = None
        self._sent_at = 0.0
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._parser = self._new_parser(self)
        self._client.opened(self)

    def send(self, asked: _Asked) -> None:
        self._asked = asked
        self._sent_at = self._loop.time()
        self._transport.write(asked.request)

    def is_waiting_since(self, before: float) -> bool:
        return self._asked is not None and self._sent_at < before

    def end(self, reason: str) -> None:
        self._transport.abort()
        self._fail(reason)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except Exception:  # noqa: BLE001  the parser's errors have no common base to name
            self.end("the answer is not HTTP")

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        asked, self._asked = self._asked, None
        body, self._body = b"".join(self._body), []
        status, keeps = self._parser.get_status_code(), self._parser.should_keep_alive()
        if asked is not None:
            asked.done(Answer(status, body, self._sent_at))
        if keeps:
            self._client.free(self)
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.lost(self)
        self._fail("the connection broke")

    def _fail(self, reason: str) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.done(Answer(NO_ANSWER, reason.encode(), self._sent_at))


class Delivery(NamedTuple):
    """
    A webhook that arrived: its headers (keys in lower case), its body, and the time of its start on the loop's clock.
    """

    headers: dict[str, str]
    body: bytes
    began_at: float


class Receiver:
    """
    A server on loopback that accepts webhooks and answers each with the status that *on_delivery* returns.
    """

    def __init__(self, on_delivery: Callable[[Delivery], int]) -> None:
        self._on_delivery = on_delivery
        self._parser = _httptools().HttpRequestParser
        self.port = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Delivered(self._on_delivery, self._parser), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()


class _Delivered(asyncio.Protocol):
    def __init__(self, on_delivery: Callable[[Delivery], int], parser: Callable[[object], Any]) -> None:
        self._on_delivery = on_delivery
        self._parser = parser(self)
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except Exception:  # noqa: BLE001  a parser's errors have no common base to name
            self._transport.abort()

    def on_message_begin(self) -> None:
        self._began_at = self._loop.time()
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        status = self._on_delivery(Delivery(self._headers, b"".join(self._body), self._began_at))
        self._transport.write(f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\ncontent-length: 0\r\n\r\n".encode())


def _httptools() -> Any:
    try:
        return importlib.import_module("httptools")
    except ImportError:
        raise MissingExtraError("httptools", "service") from None
