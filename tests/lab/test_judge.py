"""
The judge of a chaos run reports every violation of tickwheel's guarantees in the recorded history of the run.
"""

from __future__ import annotations

import pytest

from tickwheel.lab.chaos.history import Delivery, Fault, History, Outcome, Write
from tickwheel.lab.chaos.judge import judge, owed

IN_FLIGHT_MS = 200.0
KILL = Fault("kill", 1_050.0, 1_900.0)


def written(verb: str, at: float, generation: int = 0, due_at: float = 0, outcome: str = "acknowledged") -> Write:
    """
    Return a write of the key `k` that took 10 ms.
    """
    return Write("k", verb, at, at + 10, Outcome(outcome), generation, due_at)


def arrived(at: float, generation: int = 1, attempt: int = 1, due_at: float = 1_000, *, taken: bool = True) -> Delivery:
    """
    Return the delivery of a firing of the key `k`.
    """
    return Delivery("k", generation, attempt, due_at, at, taken)


def violations(writes: list[Write], deliveries: list[Delivery], *faults: Fault) -> dict[str, int]:
    verdict = judge(History(writes, deliveries, list(faults)), IN_FLIGHT_MS)
    kinds = {kind: len(getattr(verdict, kind)) for kind in ("lost", "doubled", "early", "unexpected", "silent")}
    assert len(verdict.violations) == sum(kinds.values())
    return {kind: count for kind, count in kinds.items() if count}


SET = written("set", 0, 1, 1_000)

CLEAN = {
    "it fires": ([SET], [arrived(1_000)], []),
    "it is four seconds late": ([SET], [arrived(5_000)], []),
    "a fault keeps it": ([SET], [arrived(12_000)], [Fault("pause", 3_000, 9_000)]),
    "it is tried again until it is taken": ([SET], [arrived(1_000, taken=False), arrived(1_200, attempt=2)], []),
    "it is repeated after a fault": ([SET], [arrived(1_001), arrived(2_000, attempt=2)], [KILL]),
    "it is moved, and fires once": ([SET, written("move", 500, 2, 3_000)], [arrived(3_001, 2, due_at=3_000)], []),
    "it is cancelled": ([SET, written("cancel", 500, 1)], [], []),
    "it is cancelled while a message is under way": ([SET, written("cancel", 995, 1)], [arrived(1_100)], []),
    "its cancel comes too late": ([SET, written("cancel", 1_000, outcome="refused")], [arrived(1_005)], []),
    "its cancel may have come": ([SET, written("cancel", 500, outcome="unknown")], [], []),
    "a set without an answer fires": ([written("set", 0, outcome="unknown")], [arrived(1_500)], []),
    "a set without an answer is written late, and fires then": (
        [written("set", 0, outcome="unknown")],
        [arrived(9_000)],
        [],
    ),
    "a set without an answer never was": ([written("set", 0, outcome="unknown")], [], []),
    "a set is asked again, and the first one fires as well": (
        [written("set", 0, outcome="unknown"), written("set", 1_020, 2, 1_500)],
        [arrived(1_020), arrived(1_501, 2, due_at=1_500)],
        [],
    ),
    "a move without an answer fires at its new time": (
        [SET, written("move", 500, outcome="unknown")],
        [arrived(3_000, 2, due_at=3_000)],
        [],
    ),
    "a process that was stopped sends what it had begun": (
        [SET, written("set", 1_010, 2, 5_000)],
        [arrived(1_900), arrived(5_000, 2, due_at=5_000)],
        [Fault("pause", 1_000, 1_850)],
    ),
}
BROKEN = {
    "it never arrives": ([SET], [], [], {"lost": 1}),
    "it is forgotten for six seconds": ([SET], [arrived(7_001)], [], {"silent": 1}),
    "it is forgotten for six seconds after a fault": ([SET], [arrived(7_901)], [KILL], {"silent": 1}),
    "it is forgotten before a fault": ([SET], [arrived(9_000)], [Fault("kill", 8_000, 8_900)], {"silent": 1}),
    "it never arrives in spite of a fault": ([SET], [], [KILL], {"lost": 1}),
    "it is never taken": ([SET], [arrived(1_000, taken=False)], [], {"lost": 1}),
    "its move is lost": ([SET, written("move", 500, 2, 3_000)], [], [], {"lost": 1}),
    "it fires before its move only": (
        [written("set", 0, 1, 100), written("move", 500, 2, 3_000)],
        [arrived(100, due_at=100)],
        [],
        {"lost": 1},
    ),
    "its cancel is refused and it never arrives": (
        [SET, written("cancel", 999, outcome="refused")],
        [],
        [],
        {"lost": 1},
    ),
    "a fire id arrives twice": ([SET], [arrived(1_000), arrived(2_000)], [KILL], {"doubled": 1}),
    "it is repeated without a fault": ([SET], [arrived(1_000), arrived(1_040, attempt=2)], [KILL], {"doubled": 1}),
    "it is repeated long after a fault": ([SET], [arrived(2_000), arrived(3_000, attempt=2)], [KILL], {"doubled": 1}),
    "it is early": ([SET], [arrived(999.5)], [], {"early": 1}),
    "it is early for what it carries": ([SET], [arrived(1_400, due_at=1_500)], [], {"early": 1}),
    "it carries an earlier instant": ([SET], [arrived(1_000, due_at=900)], [], {"unexpected": 1}),
    "it was never set": ([], [arrived(1_000)], [], {"unexpected": 1}),
    "its generation was never set": ([SET], [arrived(1_000), arrived(1_300, 2)], [], {"unexpected": 1}),
    "it fires after its cancel": ([SET, written("cancel", 500, 1)], [arrived(1_000)], [], {"unexpected": 1}),
    "it fires in spite of its move": (
        [SET, written("move", 500, 2, 3_000)],
        [arrived(1_000), arrived(3_000, 2, due_at=3_000)],
        [],
        {"unexpected": 1},
    ),
    "it fires in spite of another set": (
        [SET, written("set", 500, 2, 3_000)],
        [arrived(1_000), arrived(3_000, 2, due_at=3_000)],
        [],
        {"unexpected": 1},
    ),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_history_that_keeps_the_promise(name: str) -> None:
    """
    If a history keeps all of tickwheel's guarantees, the judge finds no violation.
    """
    writes, deliveries, faults = CLEAN[name]
    assert violations(writes, deliveries, *faults) == {}
    assert owed(writes, deliveries) == set()


@pytest.mark.parametrize("name", BROKEN)
def test_a_history_that_breaks_the_promise(name: str) -> None:
    """
    If a history breaks a guarantee, the judge reports this violation under its own name, and no other violation.
    """
    writes, deliveries, faults, found = BROKEN[name]
    assert violations(writes, deliveries, *faults) == found
    assert owed(writes, deliveries) == ({"k"} if "lost" in found else set())


def test_a_repeat_is_counted() -> None:
    """
    A repeated firing that a fault explains is counted, but is not a violation.
    """
    verdict = judge(History([SET], [arrived(1_001), arrived(2_000, attempt=2)], [KILL]), IN_FLIGHT_MS)
    assert (verdict.repeated, verdict.violations, verdict.late_ms) == (1, [], [1.0])


@pytest.mark.parametrize(("at", "silent"), [(9_500 + 4_000, 0), (9_500 + 5_100, 1)])
def test_a_lease_is_waited_for(at: float, silent: int) -> None:
    """
    If a process is killed, the time limit for the jobs of its shards begins when its lease expires.
    """
    kill = Fault("kill", 1_500, 2_000)
    verdict = judge(History([SET], [arrived(at)], [kill]), IN_FLIGHT_MS, lease_ms=6_000)
    assert len(verdict.silent) == silent


def test_a_violation_names_the_firing() -> None:
    """
    The text of a violation names the firing, and says by how much the limit was exceeded.
    """
    verdict = judge(History([SET, written("cancel", 500, 1)], [arrived(900)], []), IN_FLIGHT_MS)
    assert verdict.violations == [
        "early: k/1/1 arrived 100.0 ms before 1000",
        "unexpected: k/1/1 arrived 390 ms after its cancel",
    ]


def test_a_history_is_json() -> None:
    """
    A history that is written as JSON is read back unchanged.
    """
    history = History([SET, written("cancel", 5, outcome="unknown")], [arrived(1_000)], [KILL])
    assert History.from_json(history.as_json()) == history
