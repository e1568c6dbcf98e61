"""
The reach of a token: the keys that it may touch begin with its prefix, and nothing else is shown to it.

An operation heeds the prefix and is marked so, or it is refused to such a token: nothing is open by oversight.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from starlette.types import ASGIApp

from tickwheel.service.http import Request
from tickwheel.service.problems import ProblemError, show

__all__ = ["REACH", "Reach", "bounded", "check_all_keys", "check_key", "heeds_prefix", "is_bounded", "narrowed"]

_Endpoint: TypeAlias = Callable[[Request], Awaitable[ASGIApp]]
_Method = TypeVar("_Method", bound=Callable[..., object])
_MARK: Final = "heeds_prefix"
REACH: Final = "tickwheel.reach"
"""Under this name the scope of a request has the `Reach` of its token, if that has a prefix."""


@dataclass(frozen=True, slots=True)
class Reach:
    """
    The keys that begin with *prefix*; *on_refusal* counts what is refused.
    """

    prefix: str
    on_refusal: Callable[[], object]

    def refusal(self, what: str, value: object = ...) -> ProblemError:
        """
        Return the problem that *what* is for such a token.
        """
        self.on_refusal()
        remedy = "use a token without a prefix, or with another one"
        message = f"{what}: the token is for keys that begin with {show(self.prefix)}"
        return ProblemError("forbidden", message, value=value, remedy=remedy)


def is_bounded(call: Request) -> bool:
    return REACH in call.scope


def check_key(call: Request, key: str) -> str:
    reach: Reach | None = call.scope.get(REACH)
    if reach is not None and not key.startswith(reach.prefix):
        what = f"the key {show(key)} is out of reach"
        raise reach.refusal(what, key)
    return key


def narrowed(call: Request, prefix: str) -> str:
    """
    Return the prefix of the keys to list: *prefix*, or that of the token where none is given.
    """
    reach: Reach | None = call.scope.get(REACH)
    if reach is None or prefix.startswith(reach.prefix):
        return prefix
    if not prefix:
        return reach.prefix
    what = f"the prefix {show(prefix)} is out of reach"
    raise reach.refusal(what, prefix)


def check_all_keys(call: Request) -> None:
    """
    Refuse a token with a prefix.
    """
    reach: Reach | None = call.scope.get(REACH)
    if reach is not None:
        what = "this is about the jobs of all keys"
        raise reach.refusal(what)


def heeds_prefix(run: _Method) -> _Method:
    """
    Mark an operation that checks, by `check_key` and `narrowed`, what a token with a prefix may touch.
    """
    setattr(run, _MARK, True)
    return run


def bounded(run: _Endpoint, *, is_open: bool) -> _Endpoint:
    """
    Return *run*, which needs a token without a prefix, unless it heeds prefixes or *is_open* to all.
    """
    if is_open or hasattr(run, _MARK):
        return run

    async def refusing(call: Request) -> ASGIApp:
        check_all_keys(call)
        return await run(call)

    return refusing
