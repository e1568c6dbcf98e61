"""
If a design replays a trace, its counts equal those of the oracle, an independent program.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tickwheel.lab.designs import Design, parse_design
from tickwheel.lab.replay import DoesNotFitError, replay
from tickwheel.lab.trace import TraceOperation, read_trace
from tickwheel.lab.tune import facts_of, fitted
from tickwheel.wheels import CARDS

TRACES = [
    "captured_asyncio",
    "dns_request_timeout_5s",
    "dns_ttl_cache",
    "genai_request_timeout_120s",
    "hpc_walltime_hpc2n",
    "llm_request_timeout_30s_conv",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_every_design_gives_the_oracles_counts(
    traces: Path, oracle: Callable[[Path], dict[str, int]], name: str
) -> None:
    """
    If any of the six designs replays a real trace, its seven counts equal those of the oracle.

    No timer fires more than a tick late.
    """
    path = traces / f"{name}.timers.csv.gz"
    expected = oracle(path)
    operations = read_trace(path)
    facts = facts_of(operations)
    for design in map(Design, CARDS):
        wheel = fitted(design, facts).make()
        run = replay(operations, wheel)
        counts = asdict(run.counts)
        assert {count: counts.pop(count) for count in expected} == expected, design
        assert not any(counts.values()), "what the oracle does not name did not happen"
        assert run.late_max_ns <= max(wheel.abilities.tick_ns - 1, 0)
        assert len(wheel) == 0
        wheel.check()


@pytest.mark.parametrize("text", ["rounds:tick=0.25,slots=2", "hierarchical:tick=7,slots=3", "cascading:tick=0.9"])
def test_a_coarse_tick_gives_the_same_counts(text: str) -> None:
    """
    A coarser tick changes when a timer fires, but not whether it fires, is moved or is cancelled.
    """
    operations = [
        TraceOperation(0, "S", "fires late", 1_000_000),
        TraceOperation(0, "S", "cancelled", 9_000_000),
        TraceOperation(1_000_000, "C", "fires late", 0),
        TraceOperation(1_000_001, "S", "fires late", 500),
        TraceOperation(1_000_002, "S", "fires late", 900),
        TraceOperation(2_000_000, "C", "cancelled", 0),
        TraceOperation(2_000_000, "C", "cancelled", 0),
    ]
    exact, coarse = (replay(operations, parse_design(design).make()) for design in ("heap", text))
    assert exact.counts == coarse.counts
    assert asdict(exact.counts) == {
        "set": 3,
        "move": 1,
        "cancel": 1,
        "late_cancel": 2,
        "fire": 2,
        "fired_within_span": 2,
        "peak_pending": 2,
    }
    assert exact.late_max_ns == 0
    assert coarse.late_max_ns > 0


def test_a_delay_that_does_not_fit() -> None:
    """
    If a delay is too long for a ring, the error names the operation, the delay, and a sufficient number of slots.
    """
    operations = [TraceOperation(0, "S", "near", 5), TraceOperation(3, "S", "far", 2_000_000)]
    with pytest.raises(DoesNotFitError) as refusal:
        replay(operations, parse_design("single:tick=0.001,slots=100").make())
    message = "operation 2 of the trace sets 'far' to 2 s, and the span is 0.099 s: at this tick it takes slots=2001"
    assert str(refusal.value) == message
    assert replay(operations, parse_design("single:tick=0.001,slots=2001").make()).counts.fire == 2


def test_progress() -> None:
    """
    A replay reports its progress every ten thousand operations and at the end.
    """
    operations = [TraceOperation(number, "C", "none", 0) for number in range(25_000)]
    told: list[int] = []
    run = replay(operations, parse_design("native").make(), told.append)
    assert told == [10_000, 20_000, 25_000]
    assert run.counts.late_cancel == 25_000


def test_an_empty_trace() -> None:
    """
    If a trace is empty, all counts of the replay are zero.
    """
    assert not any(asdict(replay([], parse_design("heap").make()).counts).values())
