"""
Valid values of a job, and the errors for invalid values.
"""

from __future__ import annotations

import base64
import math
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.errors import InvalidDelayError
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import SetMode
from tickwheel.scheduler import HistoryOptions, Scheduler, SchedulerOptions

NOW = 1_700_000_000_000
CENTURY_S = checks.FAR_MS / 1000


class NoOffset(tzinfo):
    """
    A zone without an offset from UTC, whose datetimes count as naive.
    """

    def utcoffset(self, _):
        pass


@pytest.mark.parametrize("key", ["a", "ä" * 256, "x" * 512, "with space/and\nline", "😀"])
def test_keys(key):
    """
    A key is any text of up to 512 bytes.
    """
    assert checks.check_key(key) == key


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "may not be empty"),
        ("x" * 513, "it has 513 bytes of UTF-8: the limit is 512"),
        ("x" * 10_240, "10240 bytes"),
        ("ä" * 257, "514 bytes"),
        ("a\0b", "NUL"),
        ("\ud800", "lone surrogate"),
        (b"bytes", "pass a string, not bytes"),
        (None, "pass a string, not NoneType"),
    ],
)
def test_bad_keys(key, said):
    """
    For a key that cannot be stored, the error gives the reason.

    The message shortens a long key.
    """
    with pytest.raises(InvalidJobError, match=said) as caught:
        checks.check_key(key)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("delay", "ms"),
    [
        (0, 0),
        (-5, 0),
        (-math.inf, 0),
        (1, 1000),
        (0.0001, 1),
        (1e-300, 1),
        (Decimal("1.5"), 1500),
        (CENTURY_S, 3_155_760_000_000),
    ],
)
def test_delays(delay, ms):
    """
    A delay is rounded up to whole milliseconds.

    A job with a negative delay is due now.
    """
    assert checks.delay_ms(delay) == ms


@pytest.mark.parametrize("delay", [math.inf, 1e300, 10**400, CENTURY_S + 1], ids=["inf", "1e300", "10**400", "century"])
def test_far_delays(delay):
    """
    A delay of more than 100 years is refused.

    The error has the delay and the limit.
    """
    with pytest.raises(InvalidJobError, match=r"delay is .*: a durable job is at most 100 years ahead"):
        checks.delay_ms(delay)


def test_nan():
    """
    NaN is refused as a time.
    """
    with pytest.raises(InvalidDelayError, match=r"delay is nan"):
        checks.delay_ms(math.nan)
    with pytest.raises(InvalidDelayError, match="at is nan"):
        checks.at_ms(math.nan, NOW)


@pytest.mark.parametrize(("delay", "ms"), [("90s", 90_000), ("1.5h", 5_400_000), ("PT0.0001S", 1), ("-5s", 0)])
def test_delays_as_text(delay, ms):
    """
    Text with units, or in ISO 8601 format, is a valid length of time.
    """
    assert checks.delay_ms(delay) == ms


@pytest.mark.parametrize("delay", ["5", "", "soon", "P1M", "9" * 10**6 + "s"], ids=lambda delay: delay[:5])
def test_bad_delays_as_text(delay):
    """
    Invalid text raises an error with a remedy.

    The message shortens a long text.
    """
    with pytest.raises(InvalidJobError, match=r"delay is .*: write numbers with units such as 90s") as caught:
        checks.delay_ms(delay)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("delay", [b"5s", None, [], True, 1j])
def test_delays_of_other_types(delay):
    """
    A value that is not a number raises a TypeError that names it.
    """
    with pytest.raises(TypeError, match=r"delay is .*: pass seconds, a timedelta or text"):
        checks.delay_ms(delay)


@given(st.floats(allow_nan=False, max_value=CENTURY_S))
def test_delays_are_never_cut_short(delay):
    """
    A delay is never shortened.

    It is lengthened by less than a millisecond.
    """
    ms = checks.delay_ms(delay)
    assert max(0.0, delay * 1000) <= ms <= max(0.0, delay * 1000) + 1


def test_instants():
    """
    An instant is an aware datetime of any zone, or seconds since the epoch.
    """
    at = datetime(2030, 1, 1, 9, tzinfo=timezone(timedelta(hours=2)))
    assert checks.at_ms(at, NOW) == 1_893_481_200_000
    assert checks.at_ms(1_893_481_200, NOW) == 1_893_481_200_000
    assert checks.at_ms(0, NOW) == 0


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (datetime(2030, 1, 1), "it has no zone"),  # noqa: DTZ001  the naive one is the point
        (datetime(2030, 1, 1, tzinfo=NoOffset()), "it has no zone"),
        (datetime(9999, 12, 31, tzinfo=UTC), "at most 100 years ahead"),
        (1_893_481_200_000, "epoch seconds, not milliseconds"),
        (math.inf, "at most 100 years ahead"),
    ],
)
def test_bad_instants(at, said):
    """
    A naive datetime, or an instant that is too far in the past or future, is refused.

    The error names the remedy.
    """
    with pytest.raises(InvalidJobError, match=said):
        checks.at_ms(at, NOW)


@pytest.mark.parametrize("payload", [None, True, 0, -1.5, "ä", [], {"a": [1, {"b": None}]}, "\x00", 10**30])
def test_payloads(payload):
    """
    Every JSON value is stored and returned.
    """
    assert checks.decode_payload(checks.encode_payload(payload)) == payload


def endless() -> list[object]:
    """
    Return a list that contains itself.
    """
    found: list[object] = []
    found.append(found)
    return found


def nested(depth: int) -> list[object]:
    """
    Return lists nested *depth* deep.
    """
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({1, 2}, "JSON has no set: pass sorted"),
        (math.nan, "pass what JSON has"),
        (math.inf, "pass what JSON has"),
        (b"bytes", "JSON has no bytes: pass base64.b64encode"),
        ([{"at": datetime(2030, 1, 1, tzinfo=UTC)}], "JSON has no datetime: pass value.isoformat"),
        ("\udc00", "lone surrogate"),
        ("x" * 10_000_000, "it has 10000002 bytes: the limit is 1048576"),
        (nested(100_000), "nested too deeply"),
        (nested(101), r"payload is '\.\.\.': it is nested too deeply: the limit is 100 levels"),
        (10**5_000, "payload is <int>: pass what JSON has"),
        (endless(), "pass what JSON has"),
    ],
    ids=["set", "nan", "inf", "bytes", "datetime", "surrogate", "10 MB", "deep", "101 levels", "long int", "cycle"],
)
def test_bad_payloads(payload, said):
    """
    A value is refused if it has no JSON form or is too large.

    The error message is short.
    """
    with pytest.raises(InvalidJobError, match=said) as caught:
        checks.encode_payload(payload)
    assert len(str(caught.value)) < 300


def test_payloads_that_nest():
    """
    A payload may have a hundred levels of nested brackets, and any number of brackets side by side.
    """
    for payload in (nested(99), {"a": [nested(10)] * 50}, "[" * 1_000, {'{"' * 200: '\\"' * 200}):
        assert checks.decode_payload(checks.encode_payload(payload)) == payload


class Color(Enum):
    RED = "red"


class Money(Decimal):
    pass


@dataclass
class Order:
    number: int


@pytest.mark.parametrize(
    ("value", "passed", "read"),
    [
        (datetime(2030, 1, 1, 9, tzinfo=UTC), datetime.isoformat, datetime.fromisoformat),
        (date(2030, 1, 1), date.isoformat, date.fromisoformat),
        (time(9, 30), time.isoformat, time.fromisoformat),
        (timedelta(minutes=90), timedelta.total_seconds, lambda number: timedelta(seconds=number)),
        (Decimal("1.10"), str, Decimal),
        (Money("2.20"), str, Money),
        (UUID(int=17), str, UUID),
        (b"\0\xff", lambda value: base64.b64encode(value).decode(), base64.b64decode),
        (frozenset({2, 1}), sorted, frozenset),
        (Color.RED, lambda value: value.value, Color),
        (Order(17), asdict, lambda fields: Order(**fields)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_error_for_a_payload_names_the_remedy(value, passed, read):
    """
    The error for an invalid payload names its type and the remedy.

    A value that is converted as the error says can be stored and restored unchanged.
    """
    with pytest.raises(InvalidJobError, match=rf"JSON has no {type(value).__name__}: pass .*, and read it with"):
        checks.encode_payload({"value": [value]})
    assert read(checks.decode_payload(checks.encode_payload(passed(value)))) == value


@pytest.mark.parametrize(
    ("mark", "remedy"),
    [
        ("__struct_fields__", "pass msgspec.to_builtins"),
        ("__pydantic_fields__", "pass value.model_dump"),
        ("__attrs_attrs__", "pass attrs.asdict"),
    ],
)
def test_the_error_for_types_of_libraries_names_the_remedy(mark, remedy):
    """
    Types of msgspec, pydantic and attrs are recognised by an attribute.

    So the check does not import these libraries.
    """
    with pytest.raises(InvalidJobError, match=f"JSON has no Order: {remedy}"):
        checks.encode_payload(type("Order", (), {mark: ()})())


def test_the_remedy_for_a_struct_works():
    """
    The remedy that the error gives for msgspec's types works.
    """
    msgspec = pytest.importorskip("msgspec", reason="msgspec is not installed")
    kind = msgspec.defstruct("Struct", [("number", int)])
    assert kind.__struct_fields__ == ("number",)
    data = checks.encode_payload(msgspec.to_builtins(kind(17)))
    assert msgspec.convert(checks.decode_payload(data), kind) == kind(17)


@pytest.mark.parametrize("value", [timedelta(minutes=30), "30m", "PT30M", 1800, Decimal(1800)])
def test_seconds_of_options(value):
    """
    Every option that is a length of time accepts all forms of a duration.

    The error for an invalid value names the option.
    """
    options = SchedulerOptions(timeout_s=value, history=HistoryOptions(age_s=value))
    scheduler = Scheduler("memory://", options=options)
    scheduler.handler("h")(print)
    assert scheduler._core.registry.handlers._calls["h"].timeout_s == 1800
    scheduler.stop(value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"owner": None}, "owner is None: pass a name"),
        ({"owner": ""}, "owner is '': pass a name"),
        ({"owner": "a\0b"}, "owner is .*: it may not contain NUL"),
        ({"owner": "\ud800"}, "owner is .*: it has a lone surrogate"),
        ({"history": "x"}, r"history is 'x': pass HistoryOptions\(\)"),
    ],
)
def test_options_that_no_store_could_keep(options, said):
    """
    Options are refused before any store is opened if no store can accept them, for example an empty owner's name.

    The error names the option.
    """
    with pytest.raises(InvalidJobError, match=said):
        SchedulerOptions(**options)


def test_options_that_are_not_lengths_of_time():
    """
    A value that is not a length of time is refused.

    The error has the value and the valid forms.
    """
    for make in (
        lambda value: SchedulerOptions(timeout_s=value),
        lambda value: SchedulerOptions(horizon_s=value),
        lambda value: HistoryOptions(age_s=value),
        lambda value: Scheduler("memory://").stop(value),
    ):
        with pytest.raises(InvalidJobError, match="is 'soon': write numbers with units such as 90s"):
            make("soon")
        with pytest.raises(TypeError, match="is True: pass seconds, a timedelta or text such as '30m', not bool"):
            make(True)
    with pytest.raises(InvalidJobError, match="rate is '3/s': pass a number, more than 0"):
        Scheduler("memory://").handler("h", rate="3/s")(print)


@pytest.mark.parametrize("value", [date(2030, 1, 1), True, [], b"5"])
def test_a_value_that_is_not_an_instant(value):
    """
    If a value is not an instant, the error shows the value and the valid forms.
    """
    with pytest.raises(TypeError, match="pass a datetime, ISO 8601 text or seconds since the epoch, not "):
        checks.at_ms(value, 0)


def test_an_unknown_type_lists_the_types_of_json():
    """
    For an unknown type, the message lists the valid types.
    """
    with pytest.raises(InvalidJobError, match="JSON has no object: pass strings, numbers, True, False, None, lists"):
        checks.encode_payload(object())


def test_choices():
    """
    A mode is given by its name.

    The error for an unknown name lists the valid names.
    """
    assert checks.choice("mode", "keep", SetMode) is SetMode.KEEP
    with pytest.raises(InvalidJobError, match="mode is 'first': pass one of replace, keep, earliest"):
        checks.choice("mode", "first", SetMode)


@pytest.mark.parametrize("generation", [-1, 1.0, "1", True, 1 << 63])
def test_bad_generations(generation):
    """
    A generation is refused if it is not a whole number from 0 to 2**63 - 1.
    """
    with pytest.raises(InvalidJobError, match="if_generation"):
        checks.check_generation(generation)


def test_traces():
    """
    The trace of a job must be a W3C traceparent.
    """
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    assert checks.check_trace(trace) == trace
    for wrong in ("", "xx", trace.upper(), trace + "0", 5):
        with pytest.raises(InvalidJobError, match="traceparent"):
            checks.check_trace(wrong)


def test_the_limit_of_an_instant_counts_from_now():
    """
    The limit for an instant is counted from now, not from 1970.
    """
    assert checks.at_ms(4_000_000_000, NOW) == 4_000_000_000_000
    assert checks.at_ms(NOW / 1000 + CENTURY_S, NOW) == NOW + checks.FAR_MS
    with pytest.raises(InvalidJobError, match="at most 100 years ahead"):
        checks.at_ms(NOW / 1000 + CENTURY_S + 1, NOW)
