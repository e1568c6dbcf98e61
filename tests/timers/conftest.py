"""
A wheel on a manual clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

WHEELS: dict[str, Callable[[], Any]] = {"native": lambda: None, "heap": HeapWheel}


class Rig:
    """
    A wheel on a manual clock, and a list of its expired entries.
    """

    def __init__(self, make_wheel: Callable[[], Any], **options: Any) -> None:
        self.clock = ManualClock()
        self.expired: list[tuple[Any, Any]] = []
        self.errors: list[BaseException] = []
        options.setdefault("on_expire", lambda key, value: self.expired.append((key, value)))
        self.wheel = TimerWheel(
            wheel=make_wheel(), clock=self.clock, on_error=lambda error, _: self.errors.append(error), **options
        )

    def advance(self, delay: float) -> list[tuple[Any, Any]]:
        before = len(self.expired)
        self.clock.advance(delay)
        self.wheel.check()
        return self.expired[before:]


@pytest.fixture(params=WHEELS)
def make_rig(request: pytest.FixtureRequest) -> Callable[..., Rig]:
    return lambda **options: Rig(WHEELS[request.param], **options)
