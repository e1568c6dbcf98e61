"""
Measurements of one stage of a load.

A latency counts from the scheduled start of a request, not from its sending. So if a request has to wait because the
service is slow, its latency includes the wait. (Leaving out the wait is "coordinated omission", G. Tene.)
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["RANKS", "StageFigures", "Tally", "lateness_between", "ranked"]

RANKS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}


@dataclass(frozen=True, slots=True)
class StageFigures:
    """
    Measurements of one stage; times in seconds.

    *rate* and *seconds* were requested. *requests* is the number of scheduled requests, and *answered* the number with
    a regular answer. *overtaken* counts answered requests whose job had already fired, which is not an error.
    *latency_s* has percentiles of the time from the scheduled start to the answer or the timeout. *service_s* has
    percentiles of the time from the sending, as a closed loop would measure. *achieved_rate* is the number of answers
    per second, until the last answer. *fired* and *late_s* come from the service's counters. *by_second* has, for each
    second, the numbers of scheduled requests and of answers, and p50 and p99 of the latency of these requests (None if
    all answers were errors).
    """

    rate: float
    seconds: float
    requests: int
    answered: int
    overtaken: int
    errors: dict[str, int]
    latency_s: dict[str, float]
    service_s: dict[str, float]
    achieved_rate: float
    fired: int
    late_s: dict[str, float]
    by_second: list[dict[str, float | None]]

    @property
    def error_rate(self) -> float:
        return sum(self.errors.values()) / max(self.requests, 1)


class Tally:
    """
    Counts the answers of one stage. *done* is the number of requests that were answered or have failed.
    """

    def __init__(self, rate: float, seconds: float, begins_at: float) -> None:
        self.rate, self.seconds, self.begins_at = rate, seconds, begins_at
        self.requests = max(1, round(rate * seconds))
        self.ended = asyncio.Event()
        self.done = 0
        self._intended, self._latency, self._service = array("d"), array("d"), array("d")
        self._answered = 0
        self._answers: Counter[int] = Counter()
        self._overtaken = 0
        self._errors: Counter[str] = Counter()
        self._last_at = begins_at

    def intended(self, number: int) -> float:
        return self.begins_at + number / self.rate

    def answered(self, number: int, sent_at: float, now: float, *, is_overtaken: bool) -> None:
        self._count()
        self._waited(number, now)
        self._answered += 1
        self._service.append(now - sent_at)
        self._answers[math.floor(now - self.begins_at)] += 1
        self._overtaken += is_overtaken
        self._last_at = max(self._last_at, now)

    def refused(self, reason: str) -> None:
        self._count()
        self._errors[reason] += 1

    def unanswered(self, number: int, now: float, reason: str) -> None:
        self._waited(number, now)
        self.refused(reason)

    def cut_off(self, requests: int, now: float) -> None:
        self.requests, self.seconds = requests, now - self.begins_at
        if self.done == requests:
            self.ended.set()

    def _count(self) -> None:
        self.done += 1
        if self.done == self.requests:
            self.ended.set()

    def figures(self, fired: int, late_s: dict[str, float]) -> StageFigures:
        return StageFigures(
            rate=self.rate,
            seconds=self.seconds,
            requests=self.requests,
            answered=self._answered,
            overtaken=self._overtaken,
            errors=dict(self._errors),
            latency_s=ranked(self._latency),
            service_s=ranked(self._service),
            achieved_rate=self._answered / max(self._last_at - self.begins_at, self.requests / self.rate),
            fired=fired,
            late_s=late_s,
            by_second=self._by_second(),
        )

    def _waited(self, number: int, now: float) -> None:
        intended = self.intended(number)
        self._intended.append(intended - self.begins_at)
        self._latency.append(now - intended)

    def _by_second(self) -> list[dict[str, float | None]]:
        latencies: dict[int, list[float]] = {}
        for intended, latency in zip(self._intended, self._latency, strict=True):
            latencies.setdefault(math.floor(intended), []).append(latency)
        rows: list[dict[str, float | None]] = []
        for second in range(math.ceil(self.seconds)):
            ranks = ranked(latencies[second]) if second in latencies else {}
            share = min(1.0, self.seconds - second)
            rows.append(
                {
                    "second": second,
                    "intended": self.rate * share,
                    "answered": self._answers[second],
                    "p50": ranks.get("p50"),
                    "p99": ranks.get("p99"),
                }
            )
        return rows


def ranked(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values) or [0.0]
    return {name: ordered[math.ceil(rank * len(ordered)) - 1] for name, rank in RANKS.items()}


def lateness_between(before: dict[str, Any], after: dict[str, Any]) -> tuple[int, dict[str, float]]:
    """
    Return the number of firings between two stats of the service, and the percentiles of their lateness.

    A percentile is the upper edge of a bucket, or, in the last bucket, the service's maximum.
    """
    edges = [edge for edge, _ in after["lateness"]["histogram"]]
    counts = [
        late - early
        for (_, late), (_, early) in zip(after["lateness"]["histogram"], before["lateness"]["histogram"], strict=True)
    ]
    fired = sum(counts)
    return fired, {name: _edge(edges, counts, rank, after["lateness"]["max_ms"]) / 1e3 for name, rank in RANKS.items()}


def _edge(edges: Sequence[float | None], counts: Sequence[int], rank: float, most: float) -> float:
    wanted, passed = rank * sum(counts), 0
    for edge, count in zip(edges, counts, strict=True):
        passed += count
        if count and passed >= wanted:
            return most if edge is None else min(edge, most)
    return 0.0
