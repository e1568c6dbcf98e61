"""
Fixtures that make a wheel of each design.
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
    Return a function that makes a wheel of one design with small rings. The function takes the tick in seconds.
    """
    return DESIGNS[request.param]


@pytest.fixture(params=[name for name in DESIGNS if name != "native"])
def make_python(request: pytest.FixtureRequest) -> Callable[[float], Any]:
    """
    Return a function that makes a wheel of one design. Every design but the native one is used.
    """
    return DESIGNS[request.param]


@pytest.fixture(params=[name for name in DESIGNS if name not in {"native", "heap", "single", "calendar"}])
def make_ticked(request: pytest.FixtureRequest) -> Callable[[float], Any]:
    return DESIGNS[request.param]
