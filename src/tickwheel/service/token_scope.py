"""
The scope of a token with a prefix: the token can see and change only keys that begin with the prefix.

Only operations marked by `allows_prefixed_tokens` accept such tokens, and these check the prefix. Every other operation
refuses such tokens, so a forgotten mark grants no access.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from starlette.types import ASGIApp

from tickwheel.service.http import Request
from tickwheel.service.problems import ProblemError, show

__all__ = [
    "TOKEN_SCOPE",
    "TokenScope",
    "allows_prefixed_tokens",
    "bounded",
    "check_all_keys",
    "check_key",
    "is_bounded",
    "narrowed",
]

_Endpoint: TypeAlias = Callable[[Request], Awaitable[ASGIApp]]
_Method = TypeVar("_Method", bound=Callable[..., object])
_MARK: Final = "allows_prefixed_tokens"
TOKEN_SCOPE: Final = "tickwheel.token_scope"  # noqa: S105 a name, no password
"""Key in a request's ASGI scope. If the request's token has a prefix, the value is the `TokenScope` of the token."""


@dataclass(frozen=True, slots=True)
class TokenScope:
    """
    The keys that begin with *prefix*. *on_refusal* is called for each refused request.
    """

    prefix: str
    on_refusal: Callable[[], object]

    def refusal(self, what: str, value: object = ...) -> ProblemError:
        self.on_refusal()
        remedy = "use a token without a prefix, or with another one"
        message = f"{what}: the token is for keys that begin with {show(self.prefix)}"
        return ProblemError("forbidden", message, value=value, remedy=remedy)


def is_bounded(call: Request) -> bool:
    return TOKEN_SCOPE in call.scope


def check_key(call: Request, key: str) -> str:
    # refused even if there is no such job, so that the answer reveals nothing
    scope: TokenScope | None = call.scope.get(TOKEN_SCOPE)
    if scope is not None and not key.startswith(scope.prefix):
        what = f"the key {show(key)} is out of reach"
        raise scope.refusal(what, key)
    return key


def narrowed(call: Request, prefix: str) -> str:
    """
    Return the prefix of the keys to list: *prefix*, or the token's prefix if *prefix* is empty.

    Raise `forbidden` if *prefix* does not begin with the token's prefix.
    """
    scope: TokenScope | None = call.scope.get(TOKEN_SCOPE)
    if scope is None or prefix.startswith(scope.prefix):
        return prefix
    if not prefix:
        return scope.prefix
    what = f"the prefix {show(prefix)} is out of reach"
    raise scope.refusal(what, prefix)


def check_all_keys(call: Request) -> None:
    scope: TokenScope | None = call.scope.get(TOKEN_SCOPE)
    if scope is not None:
        what = "this is about the jobs of all keys"
        raise scope.refusal(what)


def allows_prefixed_tokens(run: _Method) -> _Method:
    """
    Mark *run*, an operation that honours the prefix of a token by calling `check_key` or `narrowed`.
    """
    setattr(run, _MARK, True)
    return run


def bounded(run: _Endpoint, *, is_open: bool) -> _Endpoint:
    """
    Wrap *run* to refuse tokens with a prefix, unless *is_open* is true or *run* is marked by `allows_prefixed_tokens`.
    """
    if is_open or hasattr(run, _MARK):
        return run

    async def refusing(call: Request) -> ASGIApp:
        check_all_keys(call)
        return await run(call)

    return refusing
