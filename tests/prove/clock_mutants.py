"""
Engines and stores with faults that become visible only when the time of a clock is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from simulation._cluster import Cluster

from tickwheel.engine._clock_steps import ClockStepAdjuster
from tickwheel.engine._prefetch import Prefetcher
from tickwheel.engine.elapsed import RelativeJobs
from tickwheel.host import store_clock as _storeclock
from tickwheel.jobs import rules
from tickwheel.stores import _decided, _plan

__all__ = [
    "counts_delays_by_its_own_clock",
    "follows_the_wall_clock",
    "knows_clocks_a_thousandth_apart",
    "sees_no_step",
    "stops_until_the_clock_is_set",
    "takes_a_rate_for_a_step",
    "takes_a_retry_for_outdated",
    "trusts_ends_of_a_later_clock",
]


def stops_until_the_clock_is_set() -> Any:
    """
    Fault: if a running job is asked to stop, the store records the present time as the job's expiry.
    """
    real = _plan.decide

    def careless(write: Any, job: Any, now: int, next_generation: Any) -> Any:
        answer, after = real(write, job, now, next_generation)
        return answer, replace(after, expires_at=now) if answer.outcome == "stopping" and after is not None else after

    both = ExitStack()
    for rows in (_decided, _plan):
        both.enter_context(mock.patch.object(rows, "decide", careless))
    return both


def trusts_ends_of_a_later_clock() -> Any:
    """
    Fault: an owner trusts the stored end of its lease, even if the server's clock was set back in the meantime.
    """
    return mock.patch.object(Cluster, "_cut_leases")


def takes_a_retry_for_outdated() -> Any:
    """
    Fault: after the engine has rewritten a job's due time, it ignores all changes of this generation for a while.
    """

    def careless(self: Any, job: Any) -> bool:
        return job.generation not in self._on_way | {generation for _, generation in self._outdated}

    return mock.patch.object(ClockStepAdjuster, "_is_fresh", careless)


def sees_no_step() -> Any:
    """
    Fault: the engine does not compare its clocks, so it does not notice a step of the wall clock.
    """

    @contextmanager
    def careless() -> Iterator[None]:
        with (
            mock.patch.object(_storeclock.StoreClock, "_look_closely", return_value=None),
            mock.patch.object(Prefetcher, "_was_set", return_value=False),
            mock.patch.object(Prefetcher, "_notice_step", return_value=None),
        ):
            yield

    return careless()


def follows_the_wall_clock() -> Any:
    """
    Fault: jobs that count elapsed time keep their old due times after a clock step.
    """
    return mock.patch.object(RelativeJobs, "base", return_value=None)


def knows_clocks_a_thousandth_apart() -> Any:
    """
    Fault: the engine wrongly assumes that clock rates differ by at most 0.1 %.
    """
    return mock.patch.object(_storeclock, "_SLEW", 1e-3)


def counts_delays_by_its_own_clock() -> Any:
    """
    Fault: a process that sets jobs computes their due times from its own estimate, a day old, of the store's time.
    """
    every = ExitStack()
    for name in ("_counted_set", "_counted"):
        every.enter_context(mock.patch.object(rules, name, lambda write, _now: write))
    every.enter_context(mock.patch.multiple(_storeclock.StoreClock, is_stale=False, latest=_storeclock.StoreClock.now))
    return every


def takes_a_rate_for_a_step() -> Any:
    """
    Fault: if a clock runs a tenth faster or slower, the engine mistakes this for a clock step at each lease renewal.
    """
    sample = _storeclock.StoreClock.sample

    def careless(self: Any, store_ms: int, before: float, after: float) -> None:
        self._sampled_at = after
        sample(self, store_ms, before, after)

    return mock.patch.object(_storeclock.StoreClock, "sample", careless)
