"""
Validates and converts callers' values.

Each check raises an `InvalidJobError` that names the value and the remedy, an `InvalidDelayError` for NaN, or a
TypeError for a wrong type. A delay is at most 100 years, because a job that never fires keeps its key and row forever.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any, Final, TypeVar

from tickwheel._core import nests_deeper
from tickwheel.calendar import duration
from tickwheel.calendar.instant import from_iso
from tickwheel.errors import InvalidDelayError
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Progress
from tickwheel.jobs.remedies import NotJsonError, refuse
from tickwheel.jobs.task_call import BEHIND_THE_KEY, TaskCall
from tickwheel.typing import Duration, Instant

__all__ = [
    "CENTURY_S",
    "DEPTH_MAX",
    "FAR_MS",
    "KEY_BYTES_MAX",
    "NUMBER_MAX",
    "PAYLOAD_BYTES_MAX",
    "SOCKET_S_MAX",
    "EncodedPayload",
    "at_ms",
    "check_count",
    "check_date",
    "check_generation",
    "check_handler",
    "check_key",
    "check_keys",
    "check_rate",
    "check_text",
    "check_trace",
    "choice",
    "decode_payload",
    "delay_ms",
    "encode_payload",
    "epoch_seconds",
    "limit_rate",
    "limit_s",
    "noted",
    "positive_s",
    "seconds",
    "span_ms",
]

KEY_BYTES_MAX = 512
PAYLOAD_BYTES_MAX = 1 << 20
DEPTH_MAX: Final = 100  # far above real payloads, and far below any recursion limit
"""Maximum nesting of arrays and objects."""
_RATES = (0.001, 1_000_000.0)
NUMBER_MAX = (1 << 53) - 1
"""The largest number in a record: the largest integer that JSON represents exactly."""
CENTURY_S: Final = 36_525 * 86_400.0
SOCKET_S_MAX: Final = 2_147_483
"""Maximum timeout that systems and libraries accept: its milliseconds fit into 31 bits."""
_FIRST_DATE_S: Final = 1e8
"""March 1973. A number below this was probably not meant as seconds since the epoch, but as a delay."""
_FLOAT_NOISE_MS: Final = 5e-4
"""Maximum rounding error of float seconds, in ms."""
FAR_MS = 36_525 * 86_400_000
"""100 years of 365.25 days."""

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=refuse).encode
_decode = json.JSONDecoder().raw_decode
"""Parses JSON. `json.loads` also handles other encodings and white space, which stored texts do not have."""

_Choice = TypeVar("_Choice", bound=str)


def check_key(key: str, name: str = "key") -> str:
    if type(key) is str and 0 < len(key) <= KEY_BYTES_MAX and key.isascii() and "\0" not in key:
        return key  # nearly all keys
    if not isinstance(key, str):
        raise InvalidJobError(name, key, f"pass a string, not {type(key).__name__}")
    if not key:
        raise InvalidJobError(name, key, "it may not be empty")
    return check_text(name, key, KEY_BYTES_MAX)


def check_keys(keys: Iterable[str]) -> list[str]:
    if isinstance(keys, str):
        raise InvalidJobError("keys", keys, f"pass a list, such as [{keys!r}]")
    return [check_key(key) for key in keys]


def check_handler(handler: str) -> str:
    # 2,048 bytes of UTF-8, so that URLs fit
    if not isinstance(handler, str):
        if isinstance(handler, TaskCall):
            raise InvalidJobError("handler", handler, BEHIND_THE_KEY)
        if hasattr(handler, "of"):
            raise InvalidJobError("handler", handler, "pass a call of the task behind the key, such as task.of(...)")
        raise InvalidJobError("handler", handler, f"pass a name or URL as a string, not {type(handler).__name__}")
    return check_text("handler", handler, 2048)


def check_text(name: str, text: str, bytes_max: int) -> str:
    if text.isascii() and len(text) <= bytes_max and "\0" not in text:
        return text
    if "\0" in text:
        raise InvalidJobError(name, text, "it may not contain NUL")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidJobError(name, text, "it has a lone surrogate, which is no character") from None
    if size > bytes_max:
        raise InvalidJobError(name, text, f"it has {size} bytes of UTF-8: the limit is {bytes_max}")
    return text


def check_scope(scope: str) -> str:
    if not isinstance(scope, str) or not scope.partition(":")[0] or scope.endswith(":"):
        raise InvalidJobError("scope", scope, "pass '*' for all jobs, a target, or TARGET:HANDLER, as 'handler:mail'")
    return check_text("scope", scope, 2560)


def check_trace(trace: str | None) -> str | None:
    if trace is not None and not (isinstance(trace, str) and _TRACEPARENT.fullmatch(trace)):
        raise InvalidJobError("trace", trace, "pass a W3C traceparent such as 00-<32 hex>-<16 hex>-01")
    return trace


def check_generation(generation: int | None) -> int | None:
    if generation is not None and (type(generation) is not int or not 0 <= generation < 1 << 63):
        raise InvalidJobError("if_generation", generation, "pass the generation that a set, move or get answered, or 0")
    return generation


def check_count(name: str, count: object, most: int) -> int:
    if type(count) is not int or not 1 <= count <= most:
        raise InvalidJobError(name, count, f"pass an integer in 1..{most}")
    return count


def check_rate(rate: object) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not _RATES[0] <= rate <= _RATES[1]:
        raise InvalidJobError("rate", rate, f"pass how many a second, {_RATES[0]:g} to {_RATES[1]:g}")
    return rate


def limit_rate(rate: object) -> float | None:
    return None if rate is None else check_rate(rate)


def choice(name: str, value: str, kind: type[_Choice]) -> _Choice:
    members: dict[str, _Choice] = _members(kind)
    member = members.get(value) if isinstance(value, str) else None
    if member is None:
        raise InvalidJobError(name, value, f"pass one of {', '.join(members)}")
    return member


def delay_ms(delay: Duration, name: str = "delay") -> int:
    """
    Convert *delay* to milliseconds, rounded up; a negative delay counts as 0, and more than 100 years is refused.
    """
    if type(delay) is float and 0.0 <= delay * 1000 <= FAR_MS:  # nearly all delays
        return math.ceil(delay * 1000)
    value = seconds(name, delay)
    if value * 1000 > FAR_MS:
        raise InvalidJobError(name, delay, f"a durable job is at most 100 years ahead, which is {FAR_MS // 1000} s")
    return 0 if value <= 0 else math.ceil(value * 1000)


def span_ms(name: str, value: Duration) -> int:
    ms = delay_ms(value, name)
    if ms < 1:
        raise InvalidJobError(name, value, "pass seconds, more than 0")
    return ms


def at_ms(at: Instant, now: int, name: str = "at") -> int:
    """
    Convert *at* to ms since the epoch. A past instant is allowed; more than 100 years after *now* (ms) is refused.
    """
    value = epoch_seconds(name, at)
    if value * 1000 - now > FAR_MS:
        raise InvalidJobError(name, at, "a durable job is at most 100 years ahead; epoch seconds, not milliseconds")
    return 0 if value <= 0 else math.ceil(value * 1000 - _FLOAT_NOISE_MS)


def check_date(at: Instant, name: str = "at") -> None:
    if not isinstance(at, str | datetime) and epoch_seconds(name, at) < _FIRST_DATE_S:
        raise InvalidJobError(
            name, at, f"as seconds since the epoch that is in 1973 or before: pass delay={at!r}, or a date"
        )


def epoch_seconds(name: str, at: Instant) -> float:
    """
    Convert *at* to seconds since the epoch; a time without an offset is refused.

    *at* is an aware datetime, ISO 8601 text with an offset such as "2030-01-01T09:00:00+01:00" or "...Z", or a number
    of seconds since the epoch.
    """
    if isinstance(at, str):
        try:
            at = from_iso(at)
        except ValueError as error:
            raise InvalidJobError(name, at, str(error)) from None
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise InvalidJobError(name, at, "it has no zone: add tzinfo, such as ZoneInfo('Europe/Berlin') or UTC")
        return at.timestamp()
    if isinstance(at, bool | date | timedelta) or not (hasattr(at, "__float__") or hasattr(at, "__index__")):
        message = (
            f"{name} is {at!r}: pass a datetime, ISO 8601 text or seconds since the epoch, not {type(at).__name__}"
        )
        raise TypeError(message)
    return seconds(name, at)


def encode_payload(payload: Any) -> bytes:
    if payload is None:
        return b"null"
    if type(payload) is EncodedPayload:
        return payload.data()
    try:
        data = _encode(payload).encode()
    except RecursionError:
        raise InvalidJobError("payload", "...", "it is nested too deeply, or contains itself") from None
    except UnicodeEncodeError:
        raise InvalidJobError("payload", payload, "it has a lone surrogate, which is no character") from None
    except NotJsonError as error:
        raise InvalidJobError("payload", payload, str(error)) from None
    except (TypeError, ValueError) as error:
        raise InvalidJobError("payload", payload, f"pass what JSON has ({str(error)[:100].lower()})") from None
    if len(data) > PAYLOAD_BYTES_MAX:
        raise InvalidJobError("payload", payload, f"it has {len(data)} bytes: the limit is {PAYLOAD_BYTES_MAX}")
    if len(data) > 2 * DEPTH_MAX and nests_deeper(data, DEPTH_MAX):
        raise InvalidJobError("payload", "...", f"it is nested too deeply: the limit is {DEPTH_MAX} levels")
    return data


class EncodedPayload:
    """
    A payload that was encoded earlier, in another thread. If the encoding failed, `encode_payload` raises the error.
    """

    __slots__ = ("_data", "_refusal")

    def __init__(self, payload: Any) -> None:
        self._data, self._refusal = b"", None
        try:
            self._data = encode_payload(payload)
        except InvalidJobError as error:
            self._refusal = error

    def data(self) -> bytes:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        return self._data


def decode_payload(data: bytes) -> Any:
    if data == b"null":
        return None
    try:
        text = data.decode()
        value, end = _decode(text)
    except ValueError:
        return json.loads(data)  # raises the full error, or can parse the text after all
    return value if end == len(text) else json.loads(data)


@cache
def _members(kind: type[_Choice]) -> dict[str, _Choice]:
    # the enum's constructor takes seven times as long
    return {str(member): member for member in kind}  # type: ignore[attr-defined]  # kind is a StrEnum


def seconds(name: str, value: Duration) -> float:
    # a number beyond all floats becomes infinite
    if type(value) is float and not math.isnan(value):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        try:
            return duration.from_text(value)
        except ValueError as error:
            raise InvalidJobError(name, value, str(error)) from None
    if isinstance(value, bool) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        message = f"{name} is {value!r}: pass seconds, a timedelta or text such as '30m', not {type(value).__name__}"
        raise TypeError(message)
    try:
        number = float(value)
    except OverflowError:  # an int past 1.8e308
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        raise InvalidDelayError(name, value)
    return number


def positive_s(name: str, value: Duration, most: float = math.inf) -> float:
    # NaN raises the same error as 0
    number = value if isinstance(value, float) else seconds(name, value)
    if not 0 < number <= most:
        remedy = "pass seconds, more than 0"
        raise InvalidJobError(name, value, remedy if most == math.inf else f"{remedy} and at most {most}")
    return number


def limit_s(name: str, value: Duration | None) -> float | None:
    # None and values of 100 years or more mean no limit
    number = math.inf if value is None else seconds(name, value)
    return None if number > CENTURY_S else number


def noted(progress: float | None, note: str) -> Progress | None:
    if progress is not None:
        return Progress.of(progress, note)
    if note:
        raise InvalidJobError("note", note, "it needs progress=, such as 0.4")
    return None
