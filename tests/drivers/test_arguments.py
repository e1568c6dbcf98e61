"""
Invalid arguments of constructors and methods, and their errors.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from libraries import needs_libraries

from tickwheel import (
    ManualDriver,
    Periodic,
    PoolExecutor,
    ShardedWheel,
    Timer,
    TimerWheel,
    background,
    with_cancel,
    with_deadline,
    with_timeout,
    with_value,
)
from tickwheel.testing import ManualClock
from tickwheel.wheels import HeapWheel

JEDI = """
import jedi
from tickwheel import {name}

def names(text):
    lines = text.splitlines()
    return {{each.name for each in jedi.Script(text).complete(len(lines), len(lines[-1]))}}

made = names("from tickwheel import {name}\\nit = {name}({args})\\nit.")
print(sorted(each for each in dir({name}) if not each.startswith("_") and each not in made))
print(sorted({{"TimerWheel", "with_timeout"}} - names("import tickwheel\\ntickwheel.")))
"""


@pytest.mark.parametrize("design", [None, HeapWheel], ids=["native", "heap"])
def test_a_handle_is_a_timer(design):
    """
    The handle of any engine is an instance of `Timer`. A series, a key or a number is not.
    """
    wheel = TimerWheel(clock=ManualClock(), wheel=design and design())
    assert isinstance(wheel.call_later(1, print), Timer)
    assert not isinstance(wheel.call_every(1, print), Timer)
    assert isinstance(wheel.call_every(1, print), Periodic)
    assert not isinstance("key", Timer)
    assert not isinstance(7, Timer)


@pytest.mark.parametrize("tz", ["UTC", UTC, ZoneInfo("UTC"), "Europe/Berlin", ZoneInfo("Europe/Berlin")], ids=str)
def test_zones(tz):
    wheel = TimerWheel(clock=ManualClock())
    assert str(wheel.call_cron("0 9 * * *", print, tz=tz).next_at().tzinfo) == str(tz)


def test_other_zones():
    """
    A `tz` that is not an IANA zone is refused, and the error says what to pass.
    """
    wheel = TimerWheel(clock=ManualClock())
    for bad in (timezone(timedelta(hours=1)), 5, None, "Nowhere/City"):
        with pytest.raises(ValueError, match=r"tz is .*: pass an IANA zone"):
            wheel.call_cron("0 9 * * *", print, tz=bad)


def test_parts_of_a_wheel():
    """
    If a part of a wheel is a class instead of an object, or lacks a method, the error names the argument.
    """
    for name, part in (
        ("executor", PoolExecutor),
        ("driver", ManualDriver),
        ("clock", ManualClock),
        ("wheel", HeapWheel),
    ):
        with pytest.raises(TypeError, match=f"{name} is .*: pass an object with"):
            TimerWheel(**{name: part})
        with pytest.raises(TypeError, match=f"{name} is 5: pass an object with"):
            TimerWheel(**{name: 5})


def test_a_wheel_in_place_of_a_context():
    """
    If a wheel is passed where a context is expected, the error names the function that makes a context from a wheel.
    """
    wheel = TimerWheel(clock=ManualClock())
    for call in (
        lambda: with_timeout(wheel, 1),
        lambda: with_deadline(wheel, 1),
        lambda: with_cancel(wheel),
        lambda: with_value(wheel, "key", 1),
    ):
        with pytest.raises(TypeError, match=r"parent is .*: pass a context, such as background\(wheel\)"):
            call()
    assert with_cancel(background(wheel)).err() is None


def test_outside_of_trio():
    """
    If a wheel for trio is made outside of trio, the error says where to make it.
    """
    with pytest.raises(RuntimeError, match=r"no trio is running: make the wheel inside of what trio\.run\(\) runs"):
        TimerWheel.trio()


def test_generics_at_run_time():
    """
    The classes of tickwheel accept type parameters at run time, also as base classes and in calls.
    """

    class Own(TimerWheel[str, int]):
        pass

    for make in (TimerWheel[str, int], Own):
        wheel = make(clock=ManualClock(), on_expire=print)
        assert isinstance(wheel, TimerWheel)
        wheel.set("key", 1, 1)
        assert wheel.get("key") == 1
    sharded = ShardedWheel[str, int](2, on_expire=print, clock=ManualClock())
    sharded.set("key", 1, 1)
    assert sharded.keys() == ["key"]


@pytest.mark.slow
@needs_libraries("jedi")
@pytest.mark.parametrize(("name", "args"), [("TimerWheel", ""), ("ShardedWheel", "2, on_expire=print")])
def test_completions_of_jedi(name, args):
    script = JEDI.format(name=name, args=args)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["[]", "[]"], "")
