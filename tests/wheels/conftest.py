"""
Every design.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tickwheel.wheels import (
    CalendarWheel,
    CascadingWheel,
    HeapWheel,
    HierarchicalWheel,
    NativeWheel,
    RoundsWheel,
    SingleWheel,
)

DESIGNS: dict[str, Callable[[float], Any]] = {
    "native": lambda _: NativeWheel(),
    "heap": lambda _: HeapWheel(),
    "single": lambda tick: SingleWheel(tick, slots=40),
    "rounds": lambda tick: RoundsWheel(tick, slots=5),
    "hierarchical": lambda tick: HierarchicalWheel(tick, slots=5),
    "cascading": CascadingWheel,
    "calendar": lambda _: CalendarWheel(),
}


@pytest.fixture(params=DESIGNS)
def make(request: pytest.FixtureRequest) -> Callable[[float], Any]:
    """
    Return what makes a wheel of some design with the tick given, in seconds; small rings, so that turns are short.
    """
    return DESIGNS[request.param]


@pytest.fixture(params=[name for name in DESIGNS if name != "native"])
def make_python(request: pytest.FixtureRequest) -> Callable[[float], Any]:
    """
    Return what makes a wheel of a design in Python, whose work can be counted in lines.
    """
    return DESIGNS[request.param]


@pytest.fixture(params=[name for name in DESIGNS if name not in {"native", "heap", "single", "calendar"}])
def make_ticked(request: pytest.FixtureRequest) -> Callable[[float], Any]:
    return DESIGNS[request.param]
