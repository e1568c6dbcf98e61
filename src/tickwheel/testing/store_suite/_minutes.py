from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.minutes import MINUTE_MS, QUARTER_MS, LaneMinute, Minute
from tickwheel.testing.store_suite._base import EVER, StoreTests

__all__ = ["MinuteTests"]

_LANE = LaneMinute("handler:é", 5, 2, 1, 3, 40.0, 50.0, 9.0, (1, 0, 4, *(0,) * 9))


class MinuteTests(StoreTests):
    def test_kept_minutes(self) -> None:
        with self.rig() as rig:
            minute = Minute("node é 1", 10 * QUARTER_MS, MINUTE_MS, 7, 20.5, 3.0, (_LANE,))
            quarter = replace(minute, span_ms=QUARTER_MS)
            rig.store.keep_minutes([minute, quarter])
            assert rig.store.minutes(0, EVER, MINUTE_MS) == [minute]
            later = replace(quarter, commits=8)
            rig.store.keep_minutes([replace(minute, at=minute.at + MINUTE_MS), later])
            assert rig.store.minutes(0, EVER, QUARTER_MS) == [later]

    def test_bounds(self) -> None:
        with self.rig() as rig:
            rows = [Minute(owner, at * MINUTE_MS) for at in (20, 21, 22) for owner in ("a", "b")]
            for row in reversed(rows):
                rig.store.keep_minutes([row])
            assert rig.store.minutes(20 * MINUTE_MS, 22 * MINUTE_MS, MINUTE_MS) == rows[:4]
            assert rig.store.minutes(20 * MINUTE_MS + 1, EVER, MINUTE_MS) == rows[2:]
            assert rig.store.minutes(0, EVER, QUARTER_MS) == []

    def test_forgotten(self) -> None:
        with self.rig() as rig:
            rows = [Minute("a", at * QUARTER_MS, span) for span in (MINUTE_MS, QUARTER_MS) for at in (1, 2, 3)]
            rig.store.keep_minutes(rows)
            rig.store.forget_minutes(3 * QUARTER_MS, 2 * QUARTER_MS)
            assert rig.store.minutes(0, EVER, MINUTE_MS) == rows[2:3]
            assert rig.store.minutes(0, EVER, QUARTER_MS) == rows[4:]
            rig.store.forget_minutes(3 * QUARTER_MS, 2 * QUARTER_MS)
            assert rig.store.minutes(0, EVER, QUARTER_MS) == rows[4:]
