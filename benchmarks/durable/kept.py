"""
The cost of the history for a one-time job that succeeds.

By default the history records nothing about such a job.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import Final

from benchmarks.durable.file import do_nothing, in_bulk, wait_for
from benchmarks.model import Measure
from tickwheel.scheduler import HistoryOptions, Scheduler, SchedulerOptions

__all__ = ["ROUNDS", "WORK", "costs"]

WORK: Final = "one-shot with the usual history over none, in percent"
ROUNDS: Final = 16


def costs(url: str, keys: list[str]) -> list[Measure]:
    """
    Set, fire and settle *keys* with the history off, with its default, and with everything recorded, in turns.

    The result for each setting is the lower quartile of its rounds, because other processes can only add to the time.
    """
    kinds = ["none", "default", "all"]
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    _round(url, "none", keys)  # the first round also does one-time work
    for number in range(ROUNDS):
        for kind in kinds[number % 3 :] + kinds[: number % 3]:
            found[kind].append(_round(url, kind, keys))
    cost = {kind: statistics.quantiles(each, n=4)[0] for kind, each in found.items()}
    measures = [Measure(f"one-shot, history {kind}", cost[kind], "ns", "cpu") for kind in kinds]
    return [*measures, Measure(WORK, 100 * cost["default"] / cost["none"], "%", "cpu")]


def _round(url: str, kind: str, keys: list[str]) -> float:
    """
    Return the processor time that one round takes for each job, in ns.
    """
    options = SchedulerOptions(history=HistoryOptions(keep=kind))
    with Scheduler(url, options=options) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        gc.collect()
        begin = time.process_time_ns()
        in_bulk(scheduler, keys)
        wait_for(scheduler, len(keys))
        return (time.process_time_ns() - begin) / len(keys)
