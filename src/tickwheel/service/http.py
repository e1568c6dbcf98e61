"""
A request as the operations read it, and a reply as they give it: the least that ASGI asks for.

Starlette routes everything but jobs, and sends files and streams. Its requests and responses cost as much as setting a
job, so operations have these instead.
"""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

__all__ = ["Reply", "Request"]


class Request:
    """
    One request: its head, and where its body comes from.

    Attributes:
        scope: As the server gives it.
        receive: Brings the body.
        headers: By lower-case name, the last of each.
    """

    __slots__ = ("headers", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    @property
    def method(self) -> str:
        """
        The method, in capitals.
        """
        method: str = self.scope["method"]
        return method

    @property
    def path(self) -> str:
        """
        The path, percent-decoded, with replacement characters for what is not UTF-8.
        """
        path: str = self.scope["path"]
        return path

    @property
    def raw_path(self) -> bytes:
        """
        The path as it was sent.
        """
        raw_path: bytes = self.scope["raw_path"]
        return raw_path

    @property
    def query_string(self) -> bytes:
        """
        The query as it was sent, without its question mark.
        """
        query_string: bytes = self.scope["query_string"]
        return query_string

    def header(self, name: bytes) -> str | None:
        """
        Return the header of this lower-case *name*, or None.
        """
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Reply:
    """
    One answer, whole: an ASGI application that sends it.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, kind: bytes, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        """
        Answer with *status* and *body*, of the media type *kind*.
        """
        self.status = status
        self.body = body
        self.headers = (
            (b"content-type", kind),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            *headers,
        )

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """
        Send it.
        """
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})
