"""
Series by the wall clock, which are cron lines and single instants, under every kind of clock change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tickwheel import ClosedError, InvalidDelayError, InvalidValueError, RecurrenceError, TimerWheel
from tickwheel.calendar import Misfire
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

HOUR = 3_600
DAY = 86_400
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Rig:
    """
    A wheel on a manual clock, and the wall-clock time of each firing.
    """

    def __init__(self, make_wheel: Callable[[], Any] = lambda: None) -> None:
        self.clock = ManualClock()
        self.zone: tzinfo = UTC
        self.fired: list[str] = []
        self.then: Callable[[], object] = bool
        self.wheel = TimerWheel(wheel=make_wheel(), clock=self.clock)

    def begin(self, now: datetime) -> None:
        """
        Set the time of day, and return it in the time zone of the test.
        """
        assert now.tzinfo is not None
        self.zone = now.tzinfo
        self.clock.set_wall(now.timestamp())

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall_ns() / 1e9, self.zone)

    def until_a_look(self) -> None:
        """
        Advance the clock to its next full minute.
        """
        self.clock.advance(60 - self.clock.monotonic_ns() % (60 * 10**9) / 1e9)

    def note(self, *_: object) -> None:
        """
        Record the time of day to the second, and then call the function that the test has chosen.
        """
        self.fired.append(f"{self.now():%m-%d %H:%M:%S}".removesuffix(":00"))
        self.then()


@pytest.fixture(params=["native", "heap"])
def rig(request: pytest.FixtureRequest) -> Rig:
    """
    Return a rig at noon in UTC, over one kind of engine.
    """
    made = Rig(HeapWheel if request.param == "heap" else lambda: None)
    made.begin(NOON)
    return made


def test_every_morning(rig):
    """
    A cron line fires at its time each day, with its arguments, until it is cancelled.
    """
    series = rig.wheel.call_cron("0 9 * * *", rig.note, "an argument")
    assert series.next_at() == datetime(2026, 6, 2, 9, tzinfo=UTC)
    assert series.when() == pytest.approx(rig.wheel.time() + 21 * HOUR)
    rig.clock.advance(21 * HOUR - 0.001)
    assert rig.fired == []
    rig.clock.advance(2 * DAY)
    assert rig.fired == ["06-02 09:00", "06-03 09:00"]
    assert (series.fired, series.missed) == (2, 0)
    assert series.cancel()
    rig.clock.advance(2 * DAY)
    assert (len(rig.fired), series.pending(), series.next_at(), len(rig.wheel)) == (2, False, None, 0)


def test_seconds_and_a_count(rig):
    """
    In a line of six fields, the first field is the seconds. A series with `times` ends after that number of firings.
    """
    series = rig.wheel.call_cron("*/20 * * * * *", rig.note, times=4)
    rig.clock.advance(HOUR)
    assert rig.fired == ["06-01 12:00:20", "06-01 12:00:40", "06-01 12:01", "06-01 12:01:20"]
    assert (series.pending(), series.cancelled()) == (False, False)


ZONES = {
    "Berlin, spring": ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["03-29 03:00", "03-30 02:30"]),
    "Berlin, autumn": ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25 02:30", "10-26 02:30"]),
    "New York, spring": ("30 2 * * *", "America/New_York", "2026-03-07T12:00", ["03-08 03:00", "03-09 02:30"]),
    "New York, autumn": (
        "30 * * * *",
        "America/New_York",
        "2026-11-01T00:00",
        ["11-01 00:30", "11-01 01:30", "11-01 01:30", "11-01 02:30"],
    ),
    "Lord Howe, spring": ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["10-04 02:30", "10-05 02:15"]),
    "Lord Howe, autumn": ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["04-05 01:45", "04-06 01:45"]),
    "Apia": ("0 12 * * *", "Pacific/Apia", "2011-12-29T11:00", ["12-29 12:00", "12-31 00:00", "12-31 12:00"]),
}


@pytest.mark.parametrize(("line", "tz", "start", "fired"), ZONES.values(), ids=ZONES)
def test_daylight_saving(line, tz, start, fired):
    """
    Gaps, overlaps and the day that Samoa skipped have the same effect on a series as on a recurring job.
    """
    rig = Rig()
    rig.begin(datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(tz)))
    rig.wheel.call_cron(line, rig.note, tz=tz, times=len(fired))
    rig.clock.advance(3 * DAY)
    assert rig.fired == fired


def test_the_day_that_never_was_is_skipped():
    """
    With the misfire policy "skip", a series at noon has no firing on the day that Samoa skipped.
    """
    rig = Rig()
    rig.begin(datetime(2011, 12, 29, 13, tzinfo=ZoneInfo("Pacific/Apia")))
    rig.wheel.call_cron("0 12 * * *", rig.note, tz="Pacific/Apia", misfire="skip")
    rig.clock.advance(DAY)
    assert rig.fired == ["12-31 12:00"]


def test_set_back_before_the_instant(rig):
    """
    If the clock is set back while a firing is pending, the series fires later by the same length of time.
    """
    rig.wheel.call_cron("0 13 * * *", rig.note)
    rig.clock.advance(HOUR - 90)
    rig.clock.step_wall(-2 * HOUR)
    rig.clock.advance(2 * HOUR + 89)
    assert rig.fired == []
    rig.clock.advance(1)
    assert rig.fired == ["06-01 13:00"]


def test_set_back_over_the_instant(rig):
    """
    If the clock is set back by an hour after a firing, the series fires again at the same time of day.

    If the clock is set back by a fraction of a second, the series does not fire again.
    """
    rig.wheel.call_cron("0 13 * * *", rig.note)
    rig.clock.advance(HOUR + 10)
    rig.clock.step_wall(-0.2)
    rig.clock.advance(10 * 60)
    assert rig.fired == ["06-01 13:00"]
    rig.clock.step_wall(-HOUR)
    rig.clock.advance(HOUR)
    assert rig.fired == ["06-01 13:00", "06-01 13:00"]


def test_drift_just_after_a_firing(rig):
    """
    If the clock is corrected by milliseconds during a firing, the series does not fire again.
    """
    rig.then = lambda: rig.clock.step_wall(-0.1)
    rig.until_a_look()
    rig.clock.set_wall(NOON.timestamp() + 0.05)
    rig.wheel.call_cron("0 13 * * *", rig.note)
    rig.clock.advance(2 * HOUR)
    assert rig.fired == ["06-01 13:00"]


@pytest.mark.parametrize(
    ("misfire", "fired", "missed"),
    [
        ("once", ["06-01 15:31", "06-01 16:00"], 2),
        (Misfire.ALL, ["06-01 15:31", "06-01 15:31", "06-01 15:31", "06-01 16:00"], 0),
        ("skip", ["06-01 16:00"], 3),
    ],
)
def test_set_forward(rig, misfire, fired, missed):
    """
    If the clock is set forward over due times, the misfire policy decides how often the series fires within a minute.
    """
    series = rig.wheel.call_cron("0 * * * *", rig.note, misfire=misfire)
    rig.until_a_look()
    begun = rig.now()
    rig.clock.step_wall(
        datetime(2026, 6, 1, 15, 30, 0, 1_000, tzinfo=UTC) - begun
    )  # past the minute, despite a float's rounding
    rig.clock.advance(HOUR)
    assert [each[:11] for each in rig.fired] == fired
    assert series.missed == missed


def test_skip_fires_what_is_less_than_a_minute_late(rig):
    """
    With the misfire policy "skip", a firing that is less than a minute late does not count as missed.
    """
    rig.wheel.call_cron("0 13 * * *", rig.note, misfire="skip")
    rig.clock.advance(HOUR - 30)
    rig.clock.jump(60)
    assert rig.fired == ["06-01 13:00:30"]


def test_a_wrong_time_between_two_checks(rig):
    """
    A wrong time that the clock shows only between two checks has no effect.
    """
    series = rig.wheel.call_cron("0 13 * * *", rig.note)
    rig.until_a_look()
    for step in (5 * HOUR, -5 * HOUR, -9 * DAY, 9 * DAY):
        rig.clock.advance(2)
        rig.clock.step_wall(step)
    rig.clock.advance(2 * HOUR)
    assert rig.fired == ["06-01 13:00"]
    assert series.missed == 0


def test_a_wrong_time_that_a_check_sees(rig):
    """
    If a check sees a wrong time that is later than the due time, the series fires. It fires again at the right time.
    """
    rig.wheel.call_cron("0 13 * * *", rig.note)
    rig.clock.step_wall(3 * HOUR)
    rig.clock.advance(61)
    assert len(rig.fired) == 1
    rig.clock.step_wall(-3 * HOUR)
    rig.clock.advance(HOUR)
    assert rig.fired[1:] == ["06-01 13:00"]


def test_never_early_on_a_slow_clock():
    """
    With a slow wall clock, a series fires only when this clock shows the due time.
    """

    class SlowClock(ManualClock):
        def wall_ns(self) -> int:
            return int(NOON.timestamp()) * 10**9 + (self.monotonic_ns() - self.begun) * 9 // 10

    clock = SlowClock()
    clock.begun = clock.monotonic_ns()
    late: list[int] = []
    wheel = TimerWheel(clock=clock)
    due = int(NOON.timestamp()) * 10**9 + 600 * 10**9
    wheel.call_cron("10 12 * * *", lambda: late.append(clock.wall_ns() - due), times=1)
    clock.advance(700)
    assert len(late) == 1
    assert 0 <= late[0] <= 100_000


def test_a_wall_clock_that_stands_still():
    """
    If the wall clock stops just before the due time, the wheel does not read it continuously.
    """

    class StuckClock(ManualClock):
        asked = 0

        def wall_ns(self) -> int:
            self.asked += 1
            return int(NOON.timestamp()) * 10**9 - 1

    clock = StuckClock()
    TimerWheel(clock=clock).call_at_wall(NOON, print)
    clock.advance(0.1)
    assert 1_000 < clock.asked < 1_010


def test_a_clock_beyond_the_precision_of_floats():
    """
    If a float cannot hold the clock's time exactly, the series still fires on time, without endless checks.
    """
    clock = ManualClock(9_007_199_999_999_990, wall=NOON.timestamp())
    fired: list[int] = []
    TimerWheel(clock=clock).call_at_wall(NOON + timedelta(minutes=5), lambda: fired.append(clock.wall_ns()))
    clock.advance(301)
    assert 0 <= fired[0] - (int(NOON.timestamp()) + 300) * 10**9 <= 100_000


def test_a_slow_callback(rig):
    """
    If due times pass while the callback runs, they are omitted, unless the misfire policy is "all".
    """
    rig.then = lambda: len(rig.fired) == 1 and rig.clock.advance(150)
    once = rig.wheel.call_cron("* * * * *", rig.note, times=2)
    rig.clock.advance(6 * 60)
    assert rig.fired == ["06-01 12:01", "06-01 12:04"]
    assert once.missed == 2
    rig.fired.clear()
    rig.wheel.call_cron("* * * * *", rig.note, times=3, misfire="all")
    rig.clock.advance(6 * 60)
    assert rig.fired == ["06-01 12:07", "06-01 12:09:30", "06-01 12:09:30"]


def test_pause_and_resume(rig):
    """
    A paused series does not fire. After a resume it continues with the next match.
    """
    series = rig.wheel.call_cron("0 * * * *", rig.note)
    assert series.pause()
    assert (series.paused(), series.when(), series.next_at(), len(rig.wheel)) == (True, math.inf, None, 0)
    rig.clock.advance(2.5 * HOUR)
    assert series.resume()
    assert series.next_at() == datetime(2026, 6, 1, 15, tzinfo=UTC)
    rig.clock.advance(HOUR)
    assert (rig.fired, series.missed) == (["06-01 15:00"], 0)
    assert series.set_interval(60)
    rig.clock.advance(120)
    assert len(rig.fired) == 3
    assert series.next_at() is None


def test_from_inside(rig):
    """
    The callback of a series may pause, resume and cancel the series.
    """
    series = rig.wheel.call_cron("0 * * * *", rig.note)
    rig.then = lambda: (series.pause(), series.resume())
    rig.clock.advance(2 * HOUR)
    rig.then = series.cancel
    rig.clock.advance(2 * HOUR)
    assert rig.fired == ["06-01 13:00", "06-01 14:00", "06-01 15:00"]


def test_one_instant(rig):
    """
    A series with one instant fires once, exact to the microsecond, or at once if the instant has passed.
    """
    when = datetime(2026, 6, 2, 0, 0, 0, 7, tzinfo=ZoneInfo("Asia/Tokyo"))
    timer = rig.wheel.call_at_wall(when, rig.note, 1)
    assert timer.next_at() == when
    assert timer.next_at().tzinfo is when.tzinfo
    rig.wheel.call_at_wall(NOON.timestamp() - 5, rig.note)
    rig.clock.advance(0)
    assert rig.fired == ["06-01 12:00"]
    rig.clock.advance(3 * HOUR)
    assert len(rig.fired) == 1
    rig.clock.advance(0.000008)
    assert len(rig.fired) == 2
    assert (timer.pending(), timer.cancel(), len(rig.wheel)) == (False, False, 0)


def test_one_instant_follows_the_clock(rig):
    """
    If the clock is set back, a series with one instant fires later.

    If the clock is set forward past the instant, the series fires within a minute.
    """
    rig.wheel.call_at_wall(NOON + timedelta(hours=1), rig.note)
    rig.wheel.call_at_wall(NOON + timedelta(hours=9), rig.note)
    rig.clock.step_wall(-HOUR)
    rig.clock.advance(HOUR + 60)
    assert rig.fired == []
    rig.clock.advance(HOUR)
    assert rig.fired == ["06-01 13:00"]
    rig.clock.step_wall(DAY)
    rig.clock.advance(60)
    assert len(rig.fired) == 2


def test_one_instant_paused_over(rig):
    """
    A series ends if it is paused while its only instant passes.
    """
    timer = rig.wheel.call_at_wall(NOON + timedelta(hours=1), rig.note)
    timer.pause()
    rig.clock.advance(2 * HOUR)
    assert not timer.resume()
    assert (timer.pending(), timer.paused(), len(rig.wheel), rig.fired) == (False, False, 0, [])


@pytest.mark.parametrize(
    ("when", "error", "match"),
    [
        (
            datetime(2026, 6, 1),  # noqa: DTZ001 the naive one is the point
            InvalidValueError,
            r"when is datetime.*: it has no zone: add tzinfo, such as ZoneInfo",
        ),
        (NOON.timestamp() * 1000, InvalidValueError, "when is 1780315200000.0: .* past the year 2262: .*milliseconds"),
        (datetime.max.replace(tzinfo=UTC), InvalidValueError, "past the year 2262"),
        (math.inf, InvalidValueError, "when is inf: it is past"),
        (math.nan, InvalidDelayError, "when is nan"),
        ("09:00", InvalidValueError, "when is '09:00': write ISO 8601 with an offset"),
        (None, TypeError, "when is None"),
        (True, TypeError, "when is True"),
        (timedelta(hours=1), TypeError, "when is datetime.timedelta"),
    ],
)
def test_instants_that_are_refused(rig, when, error, match):
    """
    A value that is not an instant is refused. The error has the value and the remedy, and nothing is set.
    """
    with pytest.raises(error, match=match):
        rig.wheel.call_at_wall(when, print)
    assert len(rig.wheel) == 0


@pytest.mark.parametrize(
    ("line", "options", "error", "match"),
    [
        ("0 9 * *", {}, RecurrenceError, r"cron is '0 9 \* \*': it has 4 fields: write 5"),
        ("0 25 * * *", {}, RecurrenceError, "its hour field '25' cannot be read"),
        ("0 0 31 2 *", {}, RecurrenceError, "it never fires"),
        (9, {}, RecurrenceError, "cron is 9: pass a line of five or six fields"),
        ("@daily", {"tz": "Mars/Olympus"}, RecurrenceError, "tz is 'Mars/Olympus': pass an IANA zone"),
        ("@daily", {"tz": None}, RecurrenceError, "tz is None: pass an IANA zone"),
        ("@daily", {"misfire": "never"}, InvalidValueError, "misfire is 'never': pass one of once, all, skip"),
        ("@daily", {"misfire": 1}, InvalidValueError, "misfire is 1: pass one of"),
        ("@daily", {"times": 0}, ValueError, "times is 0: pass 1 or more"),
        ("@daily", {"times": 1.5}, TypeError, "times is 1.5: pass an integer"),
        ("@daily", {"jitter": -1}, ValueError, "jitter is -1: pass 0 or more"),
        ("@daily", {"jitter": math.inf}, ValueError, "jitter is inf: pass 0 or more"),
    ],
)
def test_lines_that_are_refused(rig, line, options, error, match):
    """
    Unreadable lines, and options out of range, are refused. The error has the value and the remedy.
    """
    with pytest.raises(error, match=match):
        rig.wheel.call_cron(line, print, **options)
    assert len(rig.wheel) == 0


def test_callbacks_that_are_refused(rig):
    """
    An object that is not callable is refused as a callback, and so is a coroutine function without a loop.
    """

    async def work() -> None: ...

    for callback in (None, work):
        with pytest.raises(TypeError, match="callback is"):
            rig.wheel.call_cron("@daily", callback)
        with pytest.raises(TypeError, match="callback is"):
            rig.wheel.call_at_wall(NOON, callback)
    rig.wheel.close()
    with pytest.raises(ClosedError):
        rig.wheel.call_cron("@daily", print)
    with pytest.raises(ClosedError):
        rig.wheel.call_at_wall(NOON, print)


def test_jitter(rig):
    """
    Jitter delays each firing by a random time below the maximum, and never makes it early.
    """
    offsets: list[float] = []
    rig.wheel.call_cron("0 * * * *", lambda: offsets.append(rig.now().timestamp() % HOUR), jitter=600)
    rig.clock.advance(50.2 * HOUR)
    assert len(offsets) == 50
    assert all(0 <= offset < 600 for offset in offsets)
    assert max(offsets) - min(offsets) > 300


def test_listings_show_the_next_firing(rig):
    """
    Listings, drains and the repr show when a series fires next, not when it next checks the clock.
    """
    far = rig.wheel.call_cron("0 14 * * *", print, "far")
    near = rig.wheel.call_at_wall(NOON + timedelta(minutes=30), print, "near")
    plain = rig.wheel.call_later(HOUR, print, "plain")
    now = rig.wheel.time()
    assert [each.args for each in rig.wheel.pending()] == [("near",), ("plain",), ("far",)]
    assert [each.timer for each in rig.wheel.pending(2)] == [near, plain]
    assert rig.wheel.pending(0) == []
    with pytest.raises(ValueError, match="limit is -1"):
        rig.wheel.pending(-1)
    assert "pending next=2026-06-01T14:00:00+00:00" in repr(far)
    drained = rig.wheel.drain()
    assert [each.deadline - now for each in drained] == pytest.approx([1_800, HOUR, 2 * HOUR])
    assert [each.remaining for each in drained] == pytest.approx([1_800, HOUR, 2 * HOUR])
    assert far.cancelled()
    assert "cancelled" in repr(far)


def test_idle_series_wake_the_wheel_once_a_minute(rig):
    """
    A hundred idle series wake the wheel only once a minute, all at the same time.
    """
    for minute in range(100):
        rig.wheel.call_cron(f"{minute % 60} 9 * * *", rig.note)
    jumps = 0
    until = rig.clock.monotonic_ns() + HOUR * 10**9
    while rig.clock.monotonic_ns() < until:
        rig.clock.jump_to_next()
        jumps += 1
    assert jumps <= 61
    assert rig.fired == []
