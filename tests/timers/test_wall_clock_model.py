"""
Series by the wall clock, compared with a simple model that counts seconds, while the clock is set at random.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tickwheel import TimerWheel
from tickwheel.testing import ManualClock

SECOND_NS = 10**9
SEEDS = range(60)
STEPS = (-90_000, -3_700, -3_600, -300, -61, -60, -59, -7, -1, 1, 7, 59, 60, 61, 300, 3_600, 3_700, 90_000)
STARTS = (
    ("UTC", datetime(2026, 6, 1, 12, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 3, 29, 0, 30, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 5, 15, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 14, 20, tzinfo=UTC)),
)
EVERY = (1, 5, 7, 15, 30)


class Model:
    """
    A model of a series with a cron line `*/N * * * *`, which checks at each second whether the series is due.
    """

    def __init__(self, every: int, tz: str, wall: int, misfire: str) -> None:
        self.every, self.zone, self.misfire = every, ZoneInfo(tz), misfire
        self.time, self.wall = 0, wall
        self.fired: list[int] = []
        self.missed = 0
        self.aim(wall)
        self.look_at = self.next_look()

    def first_after(self, wall: int) -> int:
        """
        Return the first second after *wall* at which the series matches.
        """
        wall += 60 - wall % 60
        while datetime.fromtimestamp(wall, self.zone).minute % self.every:
            wall += 60
        return wall

    def aim(self, after: int) -> None:
        """
        Set the due time to the first second after *after* at which the series matches.
        """
        self.after, self.due = after, self.first_after(after)

    def next_look(self) -> int:
        """
        Return the time of the next check: the due time by the present clock, or an earlier whole minute.
        """
        return min(self.time + max(self.due - self.wall, 0), (self.time // 60 + 1) * 60)

    def passed(self, until: int) -> int:
        """
        Return the number of matches after the present due time, up to *until* and at most 100.
        """
        count, at = 0, self.first_after(self.due)
        while at <= until and count < 100:
            count, at = count + 1, self.first_after(at)
        return count

    def second(self) -> None:
        """
        Let one second pass.
        """
        self.time += 1
        self.wall += 1
        self.settle()

    def settle(self) -> None:
        """
        Make all checks that are due now.
        """
        while self.time >= self.look_at:
            if self.wall < self.after:
                self.aim(self.wall)
            if self.misfire == "skip" and self.wall - self.due > 60:
                self.missed += 1 + self.passed(self.wall)
                self.aim(self.wall)
            if self.wall >= self.due:
                self.fired.append(self.wall)
                if self.misfire == "all":
                    self.aim(self.due)
                else:
                    self.missed += self.passed(self.wall)
                    self.aim(max(self.due, self.wall))
            self.look_at = self.next_look()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_series_fires_like_its_model(seed):
    """
    However the clock is set, the series fires and misses firings like the model.
    """
    rng = random.Random(seed)
    every, (tz, start), misfire = rng.choice(EVERY), rng.choice(STARTS), rng.choice(("once", "skip", "all"))
    clock = ManualClock(0, wall=start.timestamp())
    wheel = TimerWheel(clock=clock)
    model = Model(every, tz, int(start.timestamp()), misfire)
    fired: list[int] = []
    series = wheel.call_cron(
        f"*/{every} * * * *", lambda: fired.append(clock.wall_ns() // SECOND_NS), tz=tz, misfire=misfire
    )
    for _ in range(60):
        if rng.random() < 0.5:
            step = rng.choice(STEPS)
            if misfire == "all":
                step = max(-3_700, min(step, 3_700))  # limited, because each missed run is made up
            clock.step_wall(step)
            model.wall += step
        for _ in range(rng.choice((1, 7, 59, 60, 61, 200))):
            model.second()
            clock.advance(1)
        told = f"seed {seed}: */{every} in {tz}, {misfire}"
        assert fired == model.fired, told
        assert series.missed == model.missed, told
        next_at = series.next_at()
        assert next_at is not None
        assert int(next_at.timestamp()) == model.due, told
    wheel.check()
