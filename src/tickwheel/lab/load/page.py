from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from tickwheel.lab._charts import Axis, line_chart
from tickwheel.lab._page import render_page, section, table
from tickwheel.lab._quantities import duration
from tickwheel.lab.load.figures import RANKS, StageFigures
from tickwheel.lab.load.run import LoadResult

__all__ = ["COLUMNS", "render_load", "stage_rows"]

COLUMNS: Final = (
    "stage",
    "achieved",
    "p50",
    "p90",
    "p99",
    "max",
    "sent to answer p99",
    "overtaken",
    "errors",
    "fired",
    "late p50",
    "late p99",
    "late max",
)


def stage_rows(stages: Iterable[StageFigures]) -> list[list[str]]:
    return [
        [
            f"{stage.rate:g}/s for {stage.seconds:g} s",
            f"{stage.achieved_rate:,.0f}/s",
            *(_time(stage.latency_s[rank]) for rank in ("p50", "p90", "p99", "max")),
            _time(stage.service_s["p99"]),
            f"{stage.overtaken:,}",
            f"{sum(stage.errors.values()):,}",
            f"{stage.fired:,}",
            *(_time(stage.late_s[rank]) for rank in ("p50", "p99", "max")),
        ]
        for stage in stages
    ]


def render_load(result: LoadResult, misses: Sequence[str], *, is_limited: bool) -> str:
    """
    Return the HTML page of a load test.

    *misses* are missed thresholds, and stages without answers. *is_limited* is True if there were thresholds.
    """
    mix = result.mix
    intro = (
        f"Requests to {result.url} at a fixed rate, whether or not it keeps up: {1 - mix.move - mix.cancel:.0%} set a "
        f"job, {mix.move:.0%} move one, {mix.cancel:.0%} cancel one; jobs are due within {mix.due_within_s:g} s and go "
        f"to {mix.target}. Seed {mix.seed}; {result.machine}, shared by who asks and who answers."
    )
    verdict = "; ".join(misses) or ("every threshold was kept" if is_limited else "no threshold was set")
    note = (
        "Latencies count from the instant at which the schedule had a request start, so a wait for a slow service is "
        "in them, and a request that got no answer counts with all its waiting; 'sent to answer' is what a client that "
        "waits its turn would have seen. Lateness is the service's own figure, by its clock and its buckets, over all "
        "its jobs. Overtaken: a move or cancel came when its job had fired."
    )
    return render_page(
        title="A service under load",
        intro=intro,
        first=table(("thresholds",), (verdict,), kind="words"),
        charts=_charts(result.stages),
        note=note,
        table=table(COLUMNS, *stage_rows(result.stages)),
        figures=result.as_json(),
    )


def _charts(stages: Sequence[StageFigures]) -> Iterable[str]:
    rates = [stage.rate for stage in stages]
    rate, time = Axis("requests a second", lambda value: f"{value:,g}"), Axis("time", duration)
    if len(set(rates)) == len(rates) > 1 and rates == sorted(rates):
        yield section(
            "Latency by rate",
            "From the intended start to the answer. Where a line turns up, the service no longer keeps up.",
            line_chart(rate, time, rates, {name: [stage.latency_s[name] * 1e9 for stage in stages] for name in RANKS}),
        )
        yield section(
            "Lateness by rate",
            "How late jobs fired, by the service's own buckets.",
            line_chart(rate, time, rates, {name: [stage.late_s[name] * 1e9 for stage in stages] for name in RANKS}),
        )
    seconds, rows = _by_second(stages)
    over = Axis("seconds of the load", lambda value: f"{value:g}", is_log=False)
    yield section(
        "Rate over time",
        "What was to come in each second, and what was answered in it.",
        line_chart(
            over,
            Axis("a second", lambda value: f"{value:,.0f}", is_log=False),
            seconds,
            {name: [row[name] or 0.0 for row in rows] for name in ("intended", "answered")},
        ),
    )
    yield section(
        "Latency over time",
        "Of the requests that were to start in each second.",
        line_chart(over, time, seconds, {name: [_ns(row[name]) for row in rows] for name in ("p50", "p99")}),
    )


def _by_second(stages: Iterable[StageFigures]) -> tuple[list[float], list[dict[str, float | None]]]:
    begins = 0.0
    seconds: list[float] = []
    rows: list[dict[str, float | None]] = []
    for stage in stages:
        seconds += [begins + second for second in range(len(stage.by_second))]
        rows += stage.by_second
        begins += stage.seconds
    return seconds, rows


def _ns(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds * 1e9


def _time(seconds: float) -> str:
    return duration(seconds * 1e9)
