"""
Selects an operation by the method of the request, and for a job also by the action at the end of the address.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from tickwheel.service.http import Reply, Request
from tickwheel.service.idempotency import IdempotencyKeys
from tickwheel.service.msgpack import is_wanted, packed
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.routes import Endpoint, KeptBy

__all__ = ["KeyMethods", "Methods"]


class Methods:
    def __init__(self, idempotency: IdempotencyKeys, kept_by: KeptBy = "request", **operations: Endpoint) -> None:
        self._idempotency = idempotency
        self._kept_by: KeptBy = kept_by
        self._operations = operations
        if "GET" in operations:
            operations["HEAD"] = operations["GET"]
        self._allow = ", ".join(sorted(operations))

    async def reply(self, call: Request) -> ASGIApp:
        operation = self._operations.get(call.method)
        if operation is None:
            message = f"this address takes {self._allow}, not {show(call.method)}"
            raise ProblemError("method_not_allowed", message, value=call.method, headers={"allow": self._allow})
        if b"idempotency-key" in call.headers and call.method not in ("GET", "HEAD"):
            reply = await self._idempotency.reply(call, operation, self._kept_by)
        else:
            reply = await operation(call)
        if b"msgpack" in call.headers.get(b"accept", b"") and isinstance(reply, Reply) and is_wanted(call):
            return packed(reply)
        return reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = await self.reply(Request(scope, receive))
        await reply(scope, receive, send)


class KeyMethods:
    """
    Routes addresses that contain a key and, optionally, an action after a colon.

    Client libraries encode a colon in a key: `a:run` becomes `a%3Arun`. So only an unencoded colon begins an action.
    """

    def __init__(self, address: str, methods: dict[str, Methods]) -> None:
        self._plain = methods.pop(address)
        actions = [path for path in methods if path.startswith(address)]
        self._actions = {path.removeprefix(f"{address}:").encode(): methods.pop(path) for path in actions}

    async def reply(self, call: Request) -> ASGIApp:
        _, colon, action = call.raw_path.rpartition(b":")
        methods = self._actions.get(action, self._plain) if colon else self._plain
        return await methods.reply(call)
