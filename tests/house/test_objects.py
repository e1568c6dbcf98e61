"""
Public objects: their repr, and the refusal of copies that would be incomplete.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import pickle
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import is_typeddict

import pytest

import tickwheel
from tickwheel import errors
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.testing import ManualClock
from tickwheel.typing import NonCopyable
from tickwheel.wheels.calendar_queue import CalendarWheel
from tickwheel.wheels.cascading import CascadingWheel
from tickwheel.wheels.delay_queue import DelayQueue
from tickwheel.wheels.heap import HeapWheel
from tickwheel.wheels.hierarchical import HierarchicalWheel
from tickwheel.wheels.native import NativeWheel
from tickwheel.wheels.rounds import RoundsWheel
from tickwheel.wheels.single import SingleWheel


def made() -> Iterator[object]:
    clock = ManualClock()
    for design in (None, HeapWheel()):
        wheel = tickwheel.TimerWheel(wheel=design, clock=clock, on_expire=print)
        yield wheel
        yield wheel.call_later(1, print)
        yield wheel.call_every(1, print)
        yield tickwheel.with_timeout(tickwheel.background(wheel), 1)
    yield tickwheel.ShardedWheel(2, clock=clock, on_expire=print)
    yield from (tickwheel.ManualDriver(), tickwheel.ThreadDriver(), clock)
    loop = asyncio.new_event_loop()
    yield tickwheel.AsyncioDriver(loop)
    yield tickwheel.TaskExecutor(loop)
    loop.close()
    yield from (tickwheel.PoolExecutor(), tickwheel.InlineExecutor(1), DelayQueue())
    yield from (NativeWheel(), HeapWheel(), CalendarWheel(), SingleWheel(), RoundsWheel(), HierarchicalWheel())
    yield CascadingWheel()


def test_each_object_shows_its_class_and_state():
    """
    The repr of a public object names its class and its state, not its address.
    """
    for thing in [*made(), tickwheel.MonotonicClock(), tickwheel.BootClock()]:
        text = repr(thing)
        assert type(thing).__name__.removeprefix("Wheel") in text
        assert f"{id(thing):x}" not in text.lower(), text


# Packages of commands: their modules have no underscore, but users do not import them.
COMMANDS = ("tickwheel.cli", "tickwheel.lab", "tickwheel.service.")


def test_every_public_class_has_a_repr(modules):
    """
    Every public class has its own repr.

    Contracts, suites and mixins are never instantiated and need none.
    """
    bare = set()
    for name in sorted(modules):
        if any(part.startswith("_") for part in name.split(".")) or name.startswith(COMMANDS):
            continue
        module = importlib.import_module(name)
        if any("\nInternal:" in (sys.modules[each].__doc__ or "") for each in packages_of(name)):
            continue
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if inspect.isclass(thing) and thing.__repr__ is object.__repr__ and not is_never_made(thing):
                bare.add(f"{name}.{public}")
    assert bare == set()


def packages_of(name: str) -> list[str]:
    """
    Return the dotted names of a module and of the packages that contain it.
    """
    return [name[:at] for at in range(len(name) + 1) if name[at : at + 1] in {"", "."}]


def is_never_made(kind: type) -> bool:
    """
    Return True if the class itself is never instantiated: a contract, a suite or a mixin.
    """
    is_contract = getattr(kind, "_is_protocol", False) or inspect.isabstract(kind) or is_typeddict(kind)
    return is_contract or kind.__name__.endswith("Suite") or kind is NonCopyable


def test_schedulers_show_where_and_how_they_are():
    """
    The repr of a scheduler shows its store or service.

    It shows whether the scheduler is not started, started or stopped.
    """
    scheduler = Scheduler("memory://")
    assert repr(scheduler) == "<Scheduler memory:// not started>"
    with scheduler:
        assert repr(scheduler) == "<Scheduler memory:// started>"
    assert repr(scheduler) == "<Scheduler memory:// stopped>"
    assert repr(AsyncScheduler("http://127.0.0.1:1")) == "<AsyncScheduler http://127.0.0.1:1 not started>"


@pytest.mark.parametrize("make", [pickle.dumps, copy.copy, copy.deepcopy])
def test_none_is_copied(make):
    """
    Pickling or copying an object raises a TypeError that names the class.

    A copy would share part of the object's state.
    """
    for thing in made():
        with pytest.raises(TypeError, match=f"{type(thing).__name__}"):
            make(thing)


def test_the_version():
    """
    `tickwheel.__version__` is the version of the distribution.
    """
    assert tickwheel.__version__ == version("tickwheel")


def test_every_error_has_a_message():
    """
    The text of an error is never empty, whatever built-in class the error also inherits from.

    A copy of the error has the same text and the same attributes.
    """
    facts = {
        "ClosedError": (),
        "TooManyTimersError": (1,),
        "ReentrantError": ("call",),
        "ExecutorFullError": (1,),
        "ContextCancelledError": (),
        "DeadlineExceededError": (1.5,),
        "LoadTimeoutError": (1.5,),
        "InvalidDelayError": ("delay", 1),
        "InvalidDeadlineError": (1,),
        "SpanExceededError": (1, 2),
        "ValueTooLargeError": (1, 2),
        "InvalidValueError": ("name", 1, "remedy"),
        "RecurrenceError": ("cron", "x", "remedy"),
        "MissingExtraError": ("library", "extra"),
    }
    assert set(facts) == set(errors.__all__) - {"TickwheelError"}
    for name, given in facts.items():
        error = getattr(errors, name)(*given)
        assert len(str(error)) > 10, name
        for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301  our own
            assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))
