from __future__ import annotations

import ast
from typing import Any, Final, TypeVar

from tickwheel.errors import TickwheelError
from tickwheel.jobs.errors import (
    AccessError,
    HandlerNotFoundError,
    InvalidJobError,
    InvalidRecurrenceError,
    LeaseEndedError,
    StoreError,
    TooManyWaitingError,
    UnsupportedError,
)

__all__ = ["error_of", "name_of"]

_E = TypeVar("_E", bound=TickwheelError)

_RECURRENCE: Final = frozenset({"every", "time", "cron", "tz", "misfire", "until", "exclude"})
_UNKNOWN_HERE: Final = frozenset({"page_not_found", "method_not_allowed"})
_TRANSIENT: Final = frozenset({408, 429, 502, 503, 504})
_REFUSED: Final = frozenset({"malformed_request", "malformed_json", "too_large", "idempotency_key_reused"})


def name_of(problem: dict[str, Any]) -> str:
    return str(problem.get("type", "")).rpartition("/")[2]


def error_of(problem: dict[str, Any], where: str) -> TickwheelError:  # noqa: PLR0911  a table, one row for each error
    name = name_of(problem)
    detail, remedy = str(problem.get("detail", "it did not say why")), str(problem.get("remedy", ""))
    value = _value(problem)
    if name in {"invalid_value", "unsupported_media_type"} | _REFUSED:
        field = detail.partition(" is ")[0]
        kind = InvalidRecurrenceError if field in _RECURRENCE else InvalidJobError
        return _made(kind, detail, name=field, value=value, remedy=detail.partition(": ")[2])
    if name == "unknown_handler":
        return _made(HandlerNotFoundError, f"{detail}: {remedy}", handler=value)
    if name == "lease_ended":
        return _made(LeaseEndedError, detail, fire_id=value, what=detail.partition(": ")[2])
    if name == "too_many_requests" and "workers wait" in detail:
        return _made(TooManyWaitingError, detail, waiting_max=0)
    if name in {"unauthorized", "forbidden", "wrong_host"}:
        return AccessError(where, detail)
    if name in _UNKNOWN_HERE:
        return UnsupportedError(f"the service at {where} does not know this call ({detail})", "update it")
    is_transient = problem.get("status", 503) in _TRANSIENT
    is_unknown = problem.get("is_unknown") is True
    what, remedy = f"{where} answered: {detail}", remedy or "see its log"
    return StoreError(what, remedy, is_transient=is_transient, is_unknown=is_unknown)


def _value(problem: dict[str, Any]) -> object:
    text = problem.get("value")
    try:
        return ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError):
        return text


def _made(kind: type[_E], message: str, **facts: object) -> _E:
    error = kind.__new__(kind)
    error.args = (message,)
    for name, value in facts.items():
        setattr(error, name, value)
    return error
