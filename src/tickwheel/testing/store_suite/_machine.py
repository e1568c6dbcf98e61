"""
Random writes against a dumb model.
"""

from __future__ import annotations

import random

from tickwheel.testing.store_machine import run_store_machine
from tickwheel.testing.store_suite._base import StoreTests

SEEDS = (1, 2, 1_538_878_746)
WRITES = 2_000


class MachineTests(StoreTests):
    """
    The state machine on this store.
    """

    def test_random_writes(self) -> None:
        """
        Whatever is written in whatever order, every answer and all that can be read is as the model says.
        """
        for seed in (*SEEDS, random.SystemRandom().randrange(2**32)):
            print(f"seed {seed}")  # noqa: T201 - a failure must be repeatable
            report = run_store_machine(self.make_store, seed, WRITES)
            assert len(report.outcomes) >= 20, report
