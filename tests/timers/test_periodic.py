"""
Series have a fixed phase and do not drift. A policy decides about missed firings.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import ClosedError, InvalidDelayError, TimerWheel, TooManyTimersError
from tickwheel.calendar import Misfire
from tickwheel.clock import to_deadline
from tickwheel.testing import ManualClock
from tickwheel.timers.phase import Phase
from tickwheel.wheels.heap import HeapWheel

AT_ONCE = (0, 0)


class Rig:
    """
    A wheel on a manual clock, and the times at which a series fired, in seconds after the start.
    """

    def __init__(self, make_wheel: Callable[[], Any], **options: Any) -> None:
        self.clock = ManualClock()
        self.start_ns = self.clock.monotonic_ns()
        self.errors: list[BaseException] = []
        self.fired: list[float] = []
        self.wheel = TimerWheel(
            wheel=make_wheel(), clock=self.clock, on_error=lambda error, _: self.errors.append(error), **options
        )

    def now(self) -> float:
        return (self.clock.monotonic_ns() - self.start_ns) / 1e9

    def note(self, *slow: float) -> None:
        """
        Record the time of the firing, and then take as long as the test wants.
        """
        self.fired.append(round(self.now(), 6))
        for delay in slow:
            self.clock.jump(delay)


@pytest.fixture(params=["native", "heap"])
def make_rig(request: pytest.FixtureRequest) -> Callable[..., Rig]:
    kind: Callable[[], Any] = HeapWheel if request.param == "heap" else lambda: None
    return lambda **options: Rig(kind, **options)


def test_every_interval(make_rig):
    """
    A series fires one interval after it is set, and then exactly once in every interval.
    """
    rig = make_rig()
    series = rig.wheel.call_every(2.5, rig.note)
    rig.clock.advance(10.5)
    assert rig.fired == [2.5, 5, 7.5, 10]
    assert (series.fired, series.missed, series.pending()) == (4, 0, True)
    assert series.when() == pytest.approx(rig.start_ns / 1e9 + 12.5, abs=1e-6)


@pytest.mark.parametrize("first", [0, -1, 0.5, 7])
def test_the_first_firing(make_rig, first):
    """
    The first firing of a series can be set to any time, and later firings follow it at whole intervals.
    """
    rig = make_rig()
    rig.wheel.call_every(2, rig.note, first=first)
    rig.clock.advance(9)
    begin = max(first, 0)
    assert rig.fired == [begin + 2 * number for number in range(5) if begin + 2 * number <= 9]


def test_a_number_of_firings(make_rig):
    """
    A series with `times` is not pending after its last firing, and cannot be cancelled.
    """
    rig = make_rig()
    series = rig.wheel.call_every(1, rig.note, times=3)
    rig.clock.advance(2.5)
    assert series.pending()
    rig.clock.advance(10)
    assert rig.fired == [1, 2, 3]
    assert (series.pending(), series.cancelled(), series.cancel()) == (False, False, False)
    assert len(rig.wheel) == 0


def test_no_drift():
    """
    Firing number 200,000 is due exactly 200,000 intervals after the start.
    """
    for interval in (1 / 3, 0.1, 1e-9, 3_600.0):
        phase = Phase(0, interval, "skip")
        for _ in range(200_000):
            phase.go_on((phase.time(AT_ONCE), 0))
        assert phase.time(AT_ONCE) == to_deadline(interval) * 200_000


@pytest.mark.parametrize(
    ("missed", "fired", "left_out"),
    [("skip", [1, 4, 5, 6, 7], 2), ("burst", [1, 3.5, 3.5, 4, 5, 6, 7], 0), ("delay", [1, 4.5, 5.5, 6.5], 2)],
)
def test_missed(make_rig, missed, fired, left_out):
    """
    If a slow callback delays the next firings, the policy decides whether they are skipped, made up for, or postponed.
    """
    rig = make_rig()
    slow = [2.5]
    series = rig.wheel.call_every(1, lambda: rig.note(*slow[: len(slow)]) or slow.clear(), missed=missed)
    rig.clock.advance(7)
    assert rig.fired == fired
    assert series.missed == left_out


@pytest.mark.parametrize(("missed", "fired"), [("skip", [10.5, 11]), ("burst", [10.5] * 10 + [11]), ("delay", [10.5])])
def test_missed_by_a_jump(make_rig, missed, fired):
    """
    The policies for missed firings also apply after the whole machine was suspended.
    """
    rig = make_rig()
    rig.wheel.call_every(1, rig.note, missed=missed)
    rig.clock.jump(10.5)
    rig.clock.advance(0.9)
    assert rig.fired == fired


def test_a_callback_that_ends_at_the_next_due_time(make_rig):
    """
    If a callback of a series ends exactly when the next firing is due, this firing counts as missed.
    """
    rig = make_rig()
    series = rig.wheel.call_every(1, rig.note, 1.0)
    rig.clock.advance(4)
    assert (rig.fired, series.missed) == ([1, 3], 2)


def test_jitter(make_rig):
    """
    Jitter delays each firing by a new random time up to the maximum, and the delays do not accumulate.
    """
    rig = make_rig()
    rig.wheel.call_every(10, rig.note, jitter=1)
    rig.clock.advance(1_000.999)
    assert len(rig.fired) == 100
    offsets = [time - 10 * number for number, time in enumerate(rig.fired, 1)]
    assert all(0 <= offset <= 1 for offset in offsets)
    assert len(set(offsets)) > 90


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_jitter_longer_than_the_interval(make_rig, missed):
    """
    Jitter may be longer than the interval, and no firing is omitted.
    """
    rig = make_rig()
    series = rig.wheel.call_every(1, rig.note, jitter=10, missed=missed)
    rig.clock.advance(1_000)
    assert series.missed == 0
    assert len(rig.fired) >= 990
    assert all(number <= time <= number + 10 for number, time in enumerate(rig.fired, 1))
    assert rig.fired == sorted(rig.fired)


@pytest.mark.parametrize("misfire", Misfire)
def test_jitter_longer_than_a_lines_interval(make_rig, misfire):
    """
    Jitter never makes a cron series omit a firing, under any policy for missed firings.
    """
    rig = make_rig()
    series = rig.wheel.call_cron("* * * * *", int, jitter=600, misfire=misfire)
    rig.clock.advance(24 * 3_600)
    assert (1_430 <= series.fired <= 1_440, series.missed) == (True, 0)


def test_cancel(make_rig):
    """
    A cancelled series never fires again, and only the first cancel returns True.
    """
    rig = make_rig()
    series = rig.wheel.call_every(1, rig.note)
    rig.clock.advance(2)
    assert [series.cancel(), series.cancel()] == [True, False]
    assert (series.cancelled(), series.pending(), len(rig.wheel)) == (True, False, 0)
    rig.clock.advance(10)
    assert rig.fired == [1, 2]


def test_cancel_inside(make_rig):
    """
    A callback may end its own series.
    """
    rig = make_rig()
    answers: list[bool] = []

    def fire() -> None:
        rig.note()
        if len(rig.fired) == 3:
            answers.append(series.cancel())

    series = rig.wheel.call_every(1, fire)
    rig.clock.advance(10)
    assert (rig.fired, answers) == ([1, 2, 3], [True])


def test_errors_do_not_end_it(make_rig):
    """
    If a callback of a series raises, the error is reported, and the series continues.
    """
    rig = make_rig()
    rig.wheel.call_every(1, lambda: 1 // 0, times=3)
    rig.clock.advance(10)
    assert [type(error) for error in rig.errors] == [ZeroDivisionError] * 3


def test_an_exit_does_not_end_it(make_rig):
    """
    If a callback of a series raises an exception such as SystemExit, `advance` raises it, and the series continues.
    """
    rig = make_rig()

    def leave() -> None:
        rig.note()
        raise KeyboardInterrupt

    rig.wheel.call_every(1, leave)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            rig.clock.advance(1)
    assert rig.fired == [1, 2]


@pytest.mark.parametrize("end", ["drain", "close"])
def test_ends_with_its_wheel(make_rig, end):
    """
    A drain or a close cancels a series, and returns the user's callback and arguments.
    """
    rig = make_rig()
    series = rig.wheel.call_every(5, rig.note, 1)
    (pending,) = getattr(rig.wheel, end)()
    assert (pending.callback, pending.args, round(pending.remaining, 6)) == (rig.note, (1,), 5)
    assert (series.cancelled(), series.pending(), series.cancel()) == (True, False, False)
    rig.clock.advance(20)
    assert rig.fired == []


def test_drained_inside(make_rig):
    """
    A drain inside the callback of a series does not return this series, which continues.
    """
    rig = make_rig()
    drained: list[Any] = []
    series = rig.wheel.call_every(1, lambda: drained.append((len(rig.wheel), rig.wheel.drain(), series.pending())))
    rig.clock.advance(2)
    assert drained == [(0, [], True)] * 2
    assert (series.pending(), len(rig.wheel)) == (True, 1)


def test_closed_inside(make_rig):
    """
    A series ends if its callback closes the wheel.
    """
    rig = make_rig()
    series = rig.wheel.call_every(1, rig.wheel.close)
    rig.clock.advance(5)
    assert (series.fired, series.pending(), series.cancelled()) == (1, False, True)
    with pytest.raises(ClosedError):
        rig.wheel.call_every(1, print)


def test_no_room_to_continue(make_rig):
    """
    If a wheel is full when a series sets its next firing, the series ends, and an error is reported.
    """
    rig = make_rig(max_pending=1)
    series = rig.wheel.call_every(1, lambda: rig.wheel.call_later(10, print))
    rig.clock.advance(5)
    assert [type(error) for error in rig.errors] == [TooManyTimersError]
    assert not series.pending()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"interval": 0}, ValueError, "interval is 0"),
        ({"interval": -1}, ValueError, "interval is -1"),
        ({"interval": float("inf")}, ValueError, "interval is inf"),
        ({"interval": float("nan")}, InvalidDelayError, "interval is nan"),
        ({"interval": None}, TypeError, "interval is None"),
        ({"interval": 1, "first": float("nan")}, InvalidDelayError, "first is nan"),
        ({"interval": 1, "times": 0}, ValueError, "times is 0"),
        ({"interval": 1, "missed": "never"}, ValueError, "missed is 'never'"),
        ({"interval": 1, "jitter": -1}, ValueError, "jitter is -1"),
        ({"interval": 1, "jitter": float("inf")}, ValueError, "jitter is inf"),
    ],
)
def test_bad_input(make_rig, options, error, text):
    """
    For an invalid interval, number or policy, the error names the argument, and nothing is set.
    """
    rig = make_rig()
    interval, others = options["interval"], {name: options[name] for name in options if name != "interval"}
    with pytest.raises(error, match=text):
        rig.wheel.call_every(interval, print, **others)
    with pytest.raises(TypeError, match="callback is 5"):
        rig.wheel.call_every(1, 5)
    assert len(rig.wheel) == 0


def test_ten_thousand_series(make_rig):
    """
    Each of ten thousand series with a fixed phase fires the right number of times.
    """
    rig = make_rig()
    series = [rig.wheel.call_every(1 + number % 7, int) for number in range(10_000)]
    rig.clock.advance(7)
    assert [each.fired for each in series] == [7 // (1 + number % 7) for number in range(10_000)]
    rig.wheel.check()


class Callback:
    """
    A callback that calls its argument. A weak reference can refer to it.
    """

    def __call__(self, inside: Callable[[], object]) -> None:
        inside()


BEGINS: dict[str, Callable[..., Any]] = {
    "every": lambda wheel, *call, **options: wheel.call_every(60, *call, **options),
    "cron": lambda wheel, *call, **options: wheel.call_cron("* * * * *", *call, **options),
    "wall": lambda wheel, *call, **_: wheel.call_at_wall(wheel.clock.wall_ns() / 1e9 + 60, *call),
}


@pytest.mark.parametrize("begin", BEGINS)
def test_an_ended_series_releases_its_callback(make_rig, begin):
    """
    A series that has ended releases its callback and arguments, even if its handle is still referenced.
    """
    rig = make_rig(max_pending=1)
    cancelled: list[bool] = []

    def started(inside: Callable[[], object], **options: Any) -> tuple[Any, weakref.ref[Callback]]:
        callback = Callback()
        return BEGINS[begin](rig.wheel, callback, inside, **options), weakref.ref(callback)

    series, callback = started(bool)
    assert "Callback" in repr(series)
    assert callback() is not None
    series.cancel()
    assert callback() is None

    series, callback = started(lambda: cancelled.append(series.cancel()))
    rig.clock.advance(61)
    assert cancelled == [begin != "wall"]
    assert callback() is None

    series, callback = started(bool, times=1)
    rig.clock.advance(61)
    assert callback() is None

    series, callback = started(lambda: rig.wheel.call_later(0, int))
    rig.clock.advance(61)
    rig.errors.clear()  # the recorded errors hold frames
    assert callback() is None, "there was no room to go on"

    series, callback = started(bool)
    assert series.pause()
    rig.clock.advance(61)
    assert series.resume() == (begin != "wall")
    assert (callback() is None) == (begin == "wall")
    series.cancel()

    series, callback = started(bool)
    (pending,) = rig.wheel.close()
    assert pending.callback is callback()
    del pending
    assert callback() is None
    assert "Callback" not in repr(series)
