"""
Counts how often a design in Python compares entries, without changing the design.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tickwheel.wheels.entry import Entry

__all__ = ["Comparisons", "counted"]


class Comparisons:
    def __init__(self) -> None:
        self.count = 0
        self.ids: set[int] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Entry.__lt__.__code__:
            self.count += 1
            self.ids |= {frame.f_locals["self"].id, frame.f_locals["other"].id}


@contextmanager
def counted() -> Iterator[Comparisons]:
    before, comparisons = sys.getprofile(), Comparisons()
    sys.setprofile(comparisons)
    try:
        yield comparisons
    finally:
        sys.setprofile(before)
