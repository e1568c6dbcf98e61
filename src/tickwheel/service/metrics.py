"""
The figures for Prometheus: read from the scheduler's integers when somebody asks, so firing pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from tickwheel.service.figures import Figures
from tickwheel.service.http import Call, Reply

__all__ = ["Metrics", "families"]

COUNTERS: Final = {
    "fired": "Firings that were handed to their target.",
    "succeeded": "Firings whose target did its work.",
    "failed": "Firings whose target failed.",
    "retried": "Failed firings that get another attempt.",
    "snoozed": "Firings whose handler asked to be called again.",
    "expired": "Runs that were left out, because they expired or were missed.",
    "dead_total": "Jobs that became dead letters.",
    "refused": "Ends of firings that the store refused: set anew meanwhile, or owned by another.",
    "commits": "Commits to the store.",
}
"""Counts of this process, by their name in the stats."""

COMMIT_COUNTERS: Final = {
    "writes": "Writes in all commits.",
    "retries": "Commits that were tried again after a passing error of the store.",
    "failures": "Writes that were answered with an error.",
}
GAUGES: Final = {
    "near": "Jobs in the wheel.",
    "in_flight": "Firings begun and not settled.",
    "epoch": "The epoch under which this process fires.",
}
_STATES: Final = ("pending", "running", "dead")


class Metrics:
    """
    The page of figures in Prometheus' text format.
    """

    def __init__(self, figures: Figures) -> None:
        """
        Read *figures*.
        """
        self._figures = figures

    async def get(self, call: Call) -> Reply:
        """
        Return the figures in Prometheus' text format.
        """
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(families(await self._figures.stats())))
        return Reply(200, CONTENT_TYPE_PLAIN_0_0_4.encode(), generate_latest(registry))


class _Collected:
    """
    A collector of what was read already.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def families(stats: Mapping[str, Any]) -> Iterator[Metric]:
    """
    Yield the metrics that *stats* hold.
    """
    jobs = GaugeMetricFamily("tickwheel_jobs", "Jobs in the store.", labels=["state"])
    for state in _STATES:
        jobs.add_metric([state], stats[state])
    yield jobs
    for name, text in GAUGES.items():
        if stats[name] is not None:
            yield GaugeMetricFamily(f"tickwheel_{name}", text, value=stats[name])
    for name, text in COUNTERS.items():
        yield CounterMetricFamily(f"tickwheel_{name.removesuffix('_total')}", text, value=stats[name])
    commit = stats["commit"]
    for name, text in COMMIT_COUNTERS.items():
        yield CounterMetricFamily(f"tickwheel_commit_{name}", text, value=commit[name])
    seconds = commit["mean_ms"] * stats["commits"] / 1000 if stats["commits"] else 0.0
    yield CounterMetricFamily("tickwheel_commit_seconds", "How long all commits took.", value=seconds)
    yield GaugeMetricFamily(
        "tickwheel_writes_waiting", "Callers' writes that wait for a commit.", value=commit["waiting"]
    )
    offset_s = stats["offset_ms"] / 1000
    yield GaugeMetricFamily("tickwheel_clock_offset_seconds", "The store's clock minus ours.", value=offset_s)
    yield _lateness(stats["lateness"])


def _lateness(lateness: Mapping[str, Any]) -> Metric:
    total = 0
    rows = []
    for edge_ms, count in lateness["histogram"]:
        total += count
        rows.append(("+Inf" if edge_ms is None else f"{edge_ms / 1000:g}", total))
    text = "How much later than its instant a job was handed to its target."
    return HistogramMetricFamily("tickwheel_lateness_seconds", text, buckets=rows, sum_value=lateness["sum_ms"] / 1000)
