from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tickwheel.lab._quantities import duration
from tickwheel.lab.load.figures import RANKS, StageFigures

__all__ = ["METRICS", "LoadStage", "Threshold", "misses"]


@dataclass(frozen=True, slots=True)
class LoadStage:
    rate: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.rate:g} a second for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Metric:
    """
    A measurement that a threshold can limit: seconds if *is_time*, else a fraction. If *is_floor*, higher is better.
    """

    read: Callable[[StageFigures], float]
    is_time: bool = True
    is_floor: bool = False


def _latency(rank: str) -> Metric:
    return Metric(lambda stage: stage.latency_s[rank])


def _late(rank: str) -> Metric:
    return Metric(lambda stage: stage.late_s[rank])


METRICS: Final[dict[str, Metric]] = {
    **{rank: _latency(rank) for rank in RANKS},
    **{f"late_{rank}": _late(rank) for rank in ("p50", "p99", "max")},
    "error_rate": Metric(lambda stage: stage.error_rate, is_time=False),
    "achieved": Metric(lambda stage: stage.achieved_rate / stage.rate, is_time=False, is_floor=True),
}
"""The measurements that a threshold can limit, keyed by name."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """
    A limit for a measurement in every stage: for `achieved` a minimum, for all other measurements a maximum.
    """

    metric: str
    limit: float

    def miss(self, stage: StageFigures) -> str | None:
        metric = METRICS[self.metric]
        found = metric.read(stage)
        if found >= self.limit if metric.is_floor else found <= self.limit:
            return None
        write = _written if metric.is_time else "{:.3%}".format
        side = "at least" if metric.is_floor else "at most"
        return f"{self.metric} is {write(found)} at {stage.rate:g} a second: {side} {write(self.limit)} was asked for"


def misses(thresholds: Iterable[Threshold], stages: Iterable[StageFigures]) -> list[str]:
    stages = list(stages)
    found = (threshold.miss(stage) for threshold in thresholds for stage in stages)
    silent = [f"no request was answered at {stage.rate:g} a second" for stage in stages if not stage.answered]
    return silent + [miss for miss in found if miss is not None]


def _written(seconds: float) -> str:
    return duration(seconds * 1e9)
