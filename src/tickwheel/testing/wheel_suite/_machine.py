from __future__ import annotations

import random

from tickwheel.testing.wheel_machine import run_machine
from tickwheel.testing.wheel_suite._base import WheelTests

__all__ = ["MachineTests"]

SEED = 1
OPERATIONS = 4_000


class MachineTests(WheelTests):
    def test_random_operations(self) -> None:
        for seed in (SEED, random.SystemRandom().randrange(2**32)):
            report = run_machine(self.make_wheel, seed, OPERATIONS)  # a divergence names its seed
            assert report.expired > 0, report
