from __future__ import annotations

import random

from tickwheel.testing.store_machine import run_store_machine
from tickwheel.testing.store_suite._base import StoreTests

SEEDS = (1, 2, 1_538_878_746)
WRITES = 2_000


class MachineTests(StoreTests):
    def test_random_writes(self) -> None:
        for seed in (*SEEDS, random.SystemRandom().randrange(2**32)):
            print(f"seed {seed}")  # noqa: T201 - a failure must be repeatable
            report = run_store_machine(self.make_store, seed, WRITES)
            assert len(report.outcomes) >= 20, report
