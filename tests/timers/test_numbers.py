"""
All methods accept numbers of all types and byte orders, with the meaning that the number's library gives them.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
from array import array
from datetime import datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tickwheel import ManualDriver, ShardedWheel, TimerWheel, aio, background, with_deadline, with_timeout
from tickwheel.cache import Refresh, TTLCache
from tickwheel.clock import NEVER, seconds, to_deadline, to_ns, to_seconds
from tickwheel.errors import InvalidDelayError
from tickwheel.testing import ManualClock
from tickwheel.wheels import HeapWheel
from tickwheel.wheels.delay_queue import DelayQueue

np = pytest.importorskip("numpy", reason="numpy is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

S = 10**9


class AFloat(float):
    pass


class AnInt(int):
    pass


class ADelta(timedelta):
    pass


class Index:
    """
    An integer that has only `__index__`.
    """

    def __index__(self) -> int:
        return 30


class Floating:
    """
    A number that has only `__float__`.
    """

    def __float__(self) -> float:
        return 30.5


VALUES: list[tuple[Any, int]] = [
    (30.5, 30_500_000_000),
    (30, 30 * S),
    (True, S),
    (AFloat(30.5), 30_500_000_000),
    (AnInt(30), 30 * S),
    (timedelta(seconds=30, microseconds=7), 30 * S + 7_000),
    (ADelta(seconds=30, microseconds=7), 30 * S + 7_000),
    (Index(), 30 * S),
    (Floating(), 30_500_000_000),
    (Fraction(1, 3), 333_333_334),
    (Fraction(3, 10), 300_000_000),
    (Decimal("0.3"), 300_000_000),
    (Decimal("30.000000001"), 30 * S + 1),
    (Decimal("1E-999999999"), 1),
    (Fraction(1, 10**400), 1),
    (np.float64(0.1), 100_000_000),
    (np.float32(30.5), 30_500_000_000),
    (np.float16(30.5), 30_500_000_000),
    (np.longdouble("0.1"), 100_000_000),
    (np.longdouble(30.5), 30_500_000_000),
    *(
        (kind(30), 30 * S)
        for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
    ),
    (np.bool_(True), S),
    (np.array(30.5), 30_500_000_000),
    (np.array(30), 30 * S),
    (np.array(np.timedelta64(30, "s")), 30 * S),
    (np.timedelta64(1, "W"), 604_800 * S),
    (np.timedelta64(1, "D"), 86_400 * S),
    (np.timedelta64(2, "h"), 7_200 * S),
    (np.timedelta64(3, "m"), 180 * S),
    (np.timedelta64(30, "s"), 30 * S),
    (np.timedelta64(30, "ms"), 30_000_000),
    (np.timedelta64(30, "us"), 30_000),
    (np.timedelta64(30, "ns"), 30),
    (np.timedelta64(1_001, "ps"), 2),
    (np.timedelta64(1, "fs"), 1),
    (np.timedelta64(1_000_000_000, "as"), 1),
    (np.timedelta64(3, ("s", 25)), 75 * S),
    (pd.Timedelta(seconds=30), 30 * S),
    (pd.Timedelta(30, "ns"), 30),
    (pd.Timedelta(days=1, nanoseconds=1), 86_400 * S + 1),
    (pd.Timedelta(np.timedelta64(30, "s")).as_unit("s"), 30 * S),
]

REFUSED: list[tuple[Any, type[Exception]]] = [
    (None, TypeError),
    ("30", TypeError),
    (b"30", TypeError),
    (30 + 0j, TypeError),
    (time(0, 0, 30), TypeError),
    (datetime(2026, 1, 1), TypeError),  # noqa: DTZ001 - naive or not, it is not a length of time
    (math.nan, InvalidDelayError),
    (Decimal("NaN"), InvalidDelayError),
    (Decimal("sNaN"), InvalidDelayError),
    (np.float64("nan"), InvalidDelayError),
    (np.float32("nan"), InvalidDelayError),
    (np.timedelta64("NaT"), InvalidDelayError),
    (np.timedelta64("NaT", "ns"), InvalidDelayError),
    (np.timedelta64(7), TypeError),
    (np.timedelta64(2, "M"), TypeError),
    (np.timedelta64(1, "Y"), TypeError),
    (np.datetime64("2026-01-01"), TypeError),
    (np.datetime64("2026-01-01T00:00:00", "ns"), TypeError),
    (np.str_("30"), TypeError),
    (np.bytes_(b"30"), TypeError),
    (np.complex64(30), TypeError),
    (np.complex128(30), TypeError),
    (np.ma.masked, TypeError),
    (pd.NaT, InvalidDelayError),
    (pd.NA, TypeError),
    (pd.Timestamp("2026-01-01"), TypeError),
]


class Rig:
    """
    A wheel on a manual clock, with one timer, one key and one bulk timer.
    """

    def __init__(self, design: Any) -> None:
        self.clock = ManualClock(0)
        wheel = {} if design is None else {"wheel": design()}
        self.wheel = TimerWheel(clock=self.clock, driver=ManualDriver(), on_expire=print, **wheel)
        self.timer = self.wheel.call_later(math.inf, print)
        self.wheel.set("k", 1, math.inf)
        self.ids = self.wheel.call_later_many([math.inf], print)

    def of_key(self) -> float:
        found = self.wheel.find("k")
        assert found is not None
        return found[1]

    def earliest(self) -> float:
        return self.wheel.pending(1)[0].deadline


def restarted(rig: Rig, value: Any) -> float:
    """
    Return the deadline after `restart`.
    """
    assert rig.timer.restart(value)
    return rig.timer.when()


def rescheduled(rig: Rig, value: Any) -> float:
    """
    Return the deadline after `reschedule`.
    """
    assert rig.timer.reschedule(value)
    return rig.timer.when()


def key_set(rig: Rig, value: Any) -> float:
    rig.wheel.set("k", 2, value)
    return rig.of_key()


def new_key(rig: Rig, value: Any) -> float:
    rig.wheel.cancel("k")
    rig.wheel.set("k", 2, value)
    return rig.of_key()


def key_moved(rig: Rig, value: Any) -> float:
    assert rig.wheel.move("k", value)
    return rig.of_key()


def missing_key(rig: Rig, value: Any) -> float:
    """
    Move a key that is not pending, without an effect. Then move a pending key, and return its deadline.
    """
    assert not rig.wheel.move("none", value)
    return key_moved(rig, value)


def sharded(rig: Rig, value: Any) -> float:
    shards = ShardedWheel(2, clock=rig.clock, on_expire=print)
    shards.set("a", 1, value)
    assert shards.move("a", value)
    found = shards.find("a")
    assert found is not None
    return found[1]


def many(rig: Rig, value: Any) -> float:
    ids = rig.wheel.call_later_many([value, math.inf], print)
    earliest = rig.earliest()
    assert rig.wheel.cancel_many(ids) == len(ids)
    return earliest


def many_of_a_tuple(rig: Rig, value: Any) -> float:
    ids = rig.wheel.call_later_many((value, math.inf), print)
    earliest = rig.earliest()
    assert rig.wheel.cancel_many(ids) == len(ids)
    return earliest


def many_of_objects(rig: Rig, value: Any) -> float:
    values = np.empty(1, object)
    values[0] = value
    ids = rig.wheel.call_later_many(values, print)
    earliest = rig.earliest()
    assert rig.wheel.cancel_many(ids) == len(ids)
    return earliest


def moved_by_one(rig: Rig, value: Any) -> float:
    """
    Return the deadline after a bulk move that has one delay for all timers.
    """
    assert rig.wheel.move_many(rig.ids, value) == 1
    return rig.earliest()


def moved_by_each(rig: Rig, value: Any) -> float:
    """
    Return the deadline after a bulk move that has a delay for each timer.
    """
    assert rig.wheel.move_many(rig.ids, [value]) == 1
    return rig.earliest()


def context_timer(rig: Rig, value: Any) -> float:
    return background(rig.wheel).call_later(value, print).when()


def context_timeout(rig: Rig, value: Any) -> float:
    deadline = with_timeout(background(rig.wheel), value).deadline()
    assert deadline is not None
    return deadline


def context_deadline(rig: Rig, value: Any) -> float:
    deadline = with_deadline(background(rig.wheel), value).deadline()
    assert deadline is not None
    return deadline


def cache_ttl(rig: Rig, value: Any) -> float:
    cache: TTLCache[str, int] = TTLCache(10, value, clock=rig.clock)
    cache["a"] = 1
    remaining = cache.remaining("a")
    assert remaining is not None
    return remaining


def cache_set(rig: Rig, value: Any) -> float:
    cache: TTLCache[str, int] = TTLCache(10, 5, clock=rig.clock)
    cache.set("a", 1, value if value is not None else "none")
    remaining = cache.remaining("a")
    assert remaining is not None
    return remaining


def cache_touched(rig: Rig, value: Any) -> float:
    cache: TTLCache[str, int] = TTLCache(10, 5, clock=rig.clock)
    cache["a"] = 1
    cache.touch("a", ttl=value if value is not None else "none")
    remaining = cache.remaining("a")
    assert remaining is not None
    return remaining


def refresh(_rig: Rig, value: Any) -> float:
    """
    Return how many seconds before the end of its lifetime an entry is refreshed, if `ahead` is *value*.
    """
    return seconds(Refresh(ahead=value).ahead_ns)


def clock_moved(_rig: Rig, value: Any) -> float:
    """
    Return how many seconds `advance` with *value* moves a manual clock.
    """
    clock = ManualClock(0)
    clock.advance(value)
    return clock.monotonic()


def queue(rig: Rig, value: Any) -> float:
    offered: DelayQueue[str] = DelayQueue(clock=rig.clock)
    offered.offer("a", value)
    _item, remaining = offered.close()[0]
    return remaining


VERBS: dict[str, Any] = {
    "call_later": lambda rig, value: rig.wheel.call_later(value, print).when(),
    "call_at": lambda rig, value: rig.wheel.call_at(value, print).when(),
    "call_every": lambda rig, value: rig.wheel.call_every(value, print).when(),
    "first": lambda rig, value: rig.wheel.call_every(1, print, first=value if value is not None else "none").when(),
    "restart": restarted,
    "reschedule": rescheduled,
    "set": key_set,
    "set of a new key": new_key,
    "move": key_moved,
    "move of no key": missing_key,
    "sharded set and move": sharded,
    "call_later_many": many,
    "call_later_many of a tuple": many_of_a_tuple,
    "call_later_many of an object array": many_of_objects,
    "move_many by one": moved_by_one,
    "move_many by each": moved_by_each,
    "context.call_later": context_timer,
    "with_timeout": context_timeout,
    "with_deadline": context_deadline,
    "ttl": cache_ttl,
    "cache.set": cache_set,
    "cache.touch": cache_touched,
    "refresh": refresh,
    "clock.advance": clock_moved,
    "queue.offer": queue,
}


@pytest.fixture(params=[None, HeapWheel], ids=["native", "python"])
def rig(request):
    return Rig(request.param)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_reads_each_type(rig, verb):
    """
    Every method converts every accepted value to the right number of nanoseconds.
    """
    for value, ns in VALUES:
        expected = seconds(ns)
        if verb in {"with_deadline", "with_timeout"}:
            expected = to_seconds(value, "value")
            assert to_ns(expected, "value") == ns or ns > to_ns(expected, "value") >= ns - 1, value
        assert VERBS[verb](rig, value) == expected, (verb, value)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_refuses_by_name(rig, verb):
    """
    Every method refuses a value that is not a length of time. The error names the value, and nothing is changed.
    """
    before = rig.wheel.pending()
    for value, error in REFUSED:
        with pytest.raises(error) as refused:
            VERBS[verb](rig, value)
        named = "none" if value is None and verb in {"first", "cache.set", "cache.touch"} else repr(value)
        assert named in str(refused.value), (verb, value)
        rig.wheel.set("k", 1, math.inf)
    assert len(rig.wheel.pending()) == len(before)


@pytest.mark.parametrize(("value", "ns"), VALUES, ids=[f"{type(value).__name__}-{ns}" for value, ns in VALUES])
def test_conversion_functions_accept_the_same_types(value, ns):
    """
    The conversion functions accept the same types as the arguments `slack` and `jitter`, and also negative values.
    """
    assert to_ns(value, "value") == to_deadline(value) == ns
    has_negative = not isinstance(value, Index | Floating | np.bool_ | np.unsignedinteger) and value is not True
    if has_negative and -value != 0:
        assert to_ns(-value, "value") == -ns
        assert to_deadline(-value) == 0
    clock = ManualClock(0)
    wheel = TimerWheel(clock=clock, driver=ManualDriver())
    if ns < 10**6 * S:
        assert wheel.call_later(1, print, slack=value).when() == wheel.call_later(1, print, slack=ns / 1e9).when()
        assert seconds(S) <= wheel.call_every(1, print, jitter=value).when() <= seconds(S + ns)


def test_beyond_all_floats():
    """
    A delay of more than 292 years means "never", and a negative delay of that length "due now", whatever its type.
    """
    for value in (math.inf, 1e300, 10**400, Decimal("1E+400"), Fraction(10**400), timedelta.max, np.float64("inf")):
        assert to_ns(value, "value") == NEVER
        if value is not timedelta.max:
            assert to_ns(-value, "value") == -NEVER
    assert to_ns(timedelta.min, "value") == -NEVER
    assert to_ns(np.timedelta64(2**62, "W"), "value") == NEVER
    assert to_ns(np.timedelta64(-(2**62), "W"), "value") == -NEVER


ORDERS = ("<", ">", "=")
KINDS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "m8[s]", "m8[5s]", "g", "O")
EXPECTED = {"m8[5s]": [5 * S, 10 * S, 15 * S]}


def shapes(values):
    doubled = np.repeat(values, 2)
    read_only = values.copy()
    read_only.flags.writeable = False
    table = np.stack([values, values, values], axis=1)
    return {
        "plain": values,
        "every second": doubled[::2],
        "backwards": values[::-1].copy()[::-1],
        "read-only": read_only,
        "a column": table[:, 1],
        "memory mapped": values.view(np.memmap) if values.dtype != object else values,
        "a masked array without a mask": np.ma.array(values),
        "a list": list(values),
        "an iterator": iter(values),
    }


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_delays(rig, kind, order):
    """
    An array of delays is read according to its element type, width, byte order, unit and strides.
    """
    dtype = np.dtype(kind if kind == "O" else order + kind)
    values = np.array([1, 2, 3], "i8" if kind != "g" else "g").astype(dtype)
    expected = EXPECTED.get(kind, [S, 2 * S, 3 * S])
    for name, shaped in shapes(values).items():
        rig.wheel.drain()
        ids = rig.wheel.call_later_many(shaped, print)
        assert [round(each.deadline * S) for each in rig.wheel.pending()] == expected, name
        if name == "an iterator":
            continue
        rig.wheel.move_many(ids, 100)
        assert rig.wheel.move_many(ids, shaped) == 3
        assert [round(each.deadline * S) for each in rig.wheel.pending()] == expected, name


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["i8", "u8", "O"])
def test_arrays_of_ids(rig, kind, order):
    """
    Arrays of timer ids are read in any byte order and layout.
    """
    for name in shapes(np.array([1])):
        rig.wheel.drain()
        ids = rig.wheel.call_later_many([1, 2, 3], print)
        dtype = np.dtype(kind if kind == "O" else order + kind)
        assert rig.wheel.move_many(shapes(np.array(ids).astype(dtype))[name], 5) == 3, name
        assert rig.wheel.cancel_many(shapes(np.array(ids).astype(dtype))[name]) == 3, name


def test_arrays_of_other_libraries(rig):
    """
    Arrays of ctypes, array, memoryview and pandas are read with the element type that they declare.
    """
    for values in (
        (ctypes.c_double * 2)(1, 2),
        (ctypes.c_long * 2)(1, 2),
        (ctypes.c_double.__ctype_be__ * 2)(1, 2),
        (ctypes.c_uint16.__ctype_be__ * 2)(1, 2),
        array("f", [1, 2]),
        array("Q", [1, 2]),
        memoryview(array("d", [1, 9, 2]))[::2],
        memoryview(b"\1\2"),
        pd.Series([1.0, 2.0]),
        pd.Series(pd.to_timedelta([1, 2], unit="s")),
        pd.to_timedelta([1, 2], unit="s"),
        pd.Index([1, 2]),
    ):
        rig.wheel.drain()
        ids = rig.wheel.call_later_many(values, print)
        assert [each.deadline for each in rig.wheel.pending()] == [1, 2], values
        assert rig.wheel.move_many(ids, values) == 2
    assert rig.wheel.move_many(ids, np.array(3.0)) == 2
    assert rig.wheel.move_many(ids, np.array(np.timedelta64(3, "s"))) == 2
    assert [each.deadline for each in rig.wheel.pending()] == [3, 3]


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        (np.ma.array([1.0, 2.0], mask=[False, True]), TypeError, "delay is masked"),
        (np.ma.array([1, 2], mask=[True, False]), TypeError, "delay is masked"),
        (np.array([1.0, np.nan]), InvalidDelayError, "nan"),
        (np.array([1.0, np.nan], ">f4"), InvalidDelayError, "nan"),
        (np.array([1, "NaT"], "m8[s]"), InvalidDelayError, "NaT"),
        (np.array([1, 2], "m8"), TypeError, "no unit"),
        (np.array([1, 2], "m8[M]"), TypeError, "no fixed length"),
        (np.array([1, 2], "M8[s]"), TypeError, "datetime64"),
        (np.array([1, 2], "c16"), TypeError, "0.j"),
        (np.array(["1"]), TypeError, "'1'"),
        (np.array([b"1"]), TypeError, "b'1'"),
        (np.ones((2, 2)), TypeError, "dimension"),
        (np.zeros(2, [("a", "f8")]), TypeError, "void"),
        (np.array([1.0, None], object), TypeError, "None"),
        (pd.Series([pd.Timedelta(1), pd.NaT]), InvalidDelayError, "NaT"),
        (pd.Series([1, None], dtype="Int64"), TypeError, "<NA>"),
        ("12", TypeError, "'12'"),
        (b"12", TypeError, "b'12'"),
    ],
    ids=repr,
)
def test_arrays_that_are_refused(rig, values, error, text):
    """
    An array is refused if any element is not a length of time, and nothing is set or moved.
    """
    before = rig.wheel.pending()
    with pytest.raises(error, match=text):
        rig.wheel.call_later_many(values, print)
    with pytest.raises(error, match=text):
        rig.wheel.move_many(np.repeat(np.array(rig.ids), 2), values)
    assert rig.wheel.pending() == before


@pytest.mark.parametrize(
    "names",
    [np.array([1.5]), np.array([True]), np.array(["1"]), np.array([1], "m8[s]"), np.ma.array([1], mask=[True]), ["a"]],
    ids=repr,
)
def test_ids_that_are_refused(rig, names):
    """
    A value that is not an id is refused with a TypeError that names the value.
    """
    for verb in (rig.wheel.cancel_many, lambda names: rig.wheel.move_many(names, 1)):
        with pytest.raises(TypeError, match="is not a timer"):
            verb(names)


def test_asyncio():
    """
    The event loop, its timeouts, `sleep` and `wait_for` accept numbers of all types, as timers do.
    """

    async def use() -> None:
        loop = asyncio.get_running_loop()
        for value, ns in VALUES:
            if isinstance(value, Decimal | Fraction) and ns == 1:
                continue
            before = loop.time()
            handle = loop.call_later(value, print)
            assert before + ns / 1e9 - 1e-6 <= handle.when() <= loop.time() + ns / 1e9 + 1e-6, value
            handle.cancel()
            handle = loop.call_at(value, print)
            assert to_ns(handle.when(), "when") == ns, value
            handle.cancel()
            before = loop.time()
            when = aio.timeout(value).when()
            assert when is not None
            assert before + ns / 1e9 - 1e-6 <= when <= loop.time() + ns / 1e9 + 1e-6, value
            when = aio.timeout_at(value).when()
            assert when is not None
            assert to_ns(when, "when") == ns, value
            assert await aio.wait_for(asyncio.sleep(0, 7), value if ns > S else 5) == 7
            with pytest.raises(TimeoutError):
                await aio.wait_for(asyncio.Event().wait(), -value if isinstance(value, timedelta) else 0)
        assert await aio.sleep(timedelta(microseconds=1), 7) == 7
        assert await aio.sleep(np.timedelta64(1, "us"), 7) == 7
        for value, error in REFUSED:
            for verb in (loop.call_later, loop.call_at):
                with pytest.raises(error):
                    verb(value, print)
            if value is not None:
                for make in (aio.timeout, aio.timeout_at):
                    with pytest.raises(error):
                        make(value)
                with pytest.raises(error):
                    await aio.wait_for(loop.create_future(), value)
            with pytest.raises(error):
                await aio.sleep(value)

    aio.run(use())
