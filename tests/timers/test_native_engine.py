"""
The native engine passes the contract suite of engines.
"""

import math
from random import Random

import pytest

from tickwheel._core import Engine
from tickwheel.clock import to_deadline
from tickwheel.testing import ManualClock
from tickwheel.testing.engine_suite import EngineSuite


class TestNativeEngine(EngineSuite):
    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> Engine:
        return Engine(clock, max_pending=max_pending)


@pytest.mark.parametrize("bits", [8, 30, 47, 50, 51, 52, 53, 56, 60, 62])
def test_it_reads_a_float_as_to_deadline_does(bits: int) -> None:
    """
    Floats of every size, even between two whole nanoseconds, are converted exactly as `to_deadline` does.
    """
    draw = Random(bits)
    engine = Engine(ManualClock(), max_pending=None)
    whole = [draw.getrandbits(bits) for _ in range(2_000)] + [2**bits + step for step in (-2, -1, 0, 1, 2)]
    instants = [ns / 1e9 for ns in whole] + [draw.uniform(0, 2**bits / 1e9) for _ in range(2_000)]
    for near in instants:
        for when in (near, math.nextafter(near, 0), math.nextafter(near, math.inf)):
            timer = engine.call_at(when, print)
            assert engine.arm() == to_deadline(when), when
            timer.cancel()
