"""
Every cell of the tables in docs/schedules.md is tested.

The tables describe what happens if a series is set or declared again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwheel.scheduler import RetryPolicy, Schedule, Snooze
from tickwheel.testing import InlineScheduler, ManualClock

HOUR = 3_600
PAGE = Path(__file__).parents[2] / "docs" / "schedules.md"
RULE = {"every": HOUR, "handler": "h", "payload": "first"}
VERBS = {
    "`set`, the same rule": RULE,
    "`set`, another rule": RULE | {"every": 3 * HOUR},
    "`set`, another payload": RULE | {"payload": "second"},
    '`set`, `mode="keep"`': RULE | {"payload": "second", "mode": "keep"},
    '`set`, `mode="restart"`': RULE | {"payload": "second", "mode": "restart"},
    "`declare`, the same rule": RULE,
    "`declare`, another rule": RULE | {"every": 3 * HOUR},
    "`declare` without it": None,
}
TABLES = {"Setting a series again": 8, "Declaring the jobs of a program": 9}
"""The number of situations (rows of the table) in each section of docs/schedules.md."""


def table(section):
    """
    Return the cells of the table in *section* of docs/schedules.md, by situation and verb.
    """
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    heads, _, *rows = rows
    return {(row[0], verb): cell for row in rows for verb, cell in zip(heads[1:], row[1:], strict=True)}


class World:
    """
    A series whose handler follows a script.
    """

    def __init__(self, *, declares):
        self.declares = declares
        self.clock, self.ran, self.results = ManualClock(), [], []
        self.scheduler = InlineScheduler(self.clock)
        self.scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=600_000, jitter=0))(self.handle)
        self.during = None

    def handle(self, payload, firing):
        """
        Record the run, call the test's function if there is one, and end with the next result of the script.
        """
        self.ran.append((payload, firing.attempt, firing.nominal_at))
        if self.during is not None:
            during, self.during = self.during, None
            during()
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result

    def set(self, fields):
        """
        Set the series or, if `declares` is true, declare a manifest. Record the outcome.

        The manifest has the series, or is empty if *fields* is None.
        """
        if self.declares:
            schedules = [] if fields is None else [Schedule("k", **fields)]
            answer = self.scheduler.declare(schedules, "m", allow_empty=True)
            self.outcome = answer.outcomes.get("k", "nothing")
        else:
            self.outcome = self.scheduler.set("k", **fields).outcome

    def in_situation(self, situation, fields):
        """
        Bring the series into *situation*, and then set it with *fields*.
        """
        ends = situation == "it has made all its runs"
        self.set(RULE | {"max_runs": 1} if ends else RULE)
        if fields and (ends or situation == "it is a dead letter") and fields["every"] == HOUR:
            fields = fields | {"max_runs": 1}
        if situation == "a run is owed, as after an outage":
            self.clock.jump(HOUR + 60)
            self.set(fields)
            self.scheduler.start()
            return
        self.scheduler.start()
        if ends:
            self.clock.advance(HOUR + 1)
        elif situation in {"it has ended", "it was cancelled"}:
            self.scheduler.cancel("k")
        elif situation == "it is paused":
            self.scheduler.pause("k")
        elif situation == "a run is under way":
            self.during = lambda: self.set(fields)
            self.clock.advance(HOUR + 1)
            return
        elif situation != "it waits for its next run":
            end = {"a run waits for its retry": OSError("no"), "a run was snoozed": Snooze(600)}
            self.results = [end.get(situation)] if situation in end else [OSError("no")] * 3
            self.scheduler.change("k", retry=RetryPolicy(attempts=3, base_ms=600_000, jitter=0))
            if situation == "it is a dead letter":
                self.scheduler.change("k", max_runs=1)
            self.clock.advance(HOUR + 1 + (HOUR if situation == "it is a dead letter" else 0))
        self.set(fields)


@pytest.mark.parametrize(("section", "situation", "verb"), [(name, *cell) for name in TABLES for cell in table(name)])
def test_each_cell(section, situation, verb):
    """
    Each cell of the tables is right: the call has the outcome and the effect that the cell states.
    """
    cell, world = table(section)[situation, verb], World(declares="declare" in verb)
    world.in_situation(situation, VERBS[verb])
    outcome, _, more = cell.partition(": ")
    assert world.outcome == outcome
    job, payload = world.scheduler.get("k"), (VERBS[verb] or {}).get("payload")
    assert (job is None) == (outcome in {"cancelled", "finished", "nothing"})
    if more == "the run ends undisturbed":
        assert (len(world.ran), world.scheduler.history("k")[0].outcome) == (1, "succeeded")
    if more == "still paused":
        assert job.pause is not None
    elif more == "once the run has ended":
        assert job.payload == f'"{payload}"'.encode()
        assert job.attempt == 0
    elif more in {"that run is made first", "with the attempts that are left"}:
        before = len(world.ran)
        world.clock.advance(601)
        assert len(world.ran) == before + 1
        assert world.ran[-1][0] == payload
        if more == "with the attempts that are left":
            assert world.ran[-1][1] == 2
        assert world.ran[-1][2] == world.ran[0][2]
    elif more == "due when the new rule says":
        assert job.due_at == world.clock.wall_ns() // 1_000_000 + 3 * HOUR * 1000
    world.scheduler.stop()


def test_the_tables_are_complete():
    """
    The tables of docs/schedules.md have a row for each tested situation, and a column for each tested verb.
    """
    for section, count in TABLES.items():
        assert len({situation for situation, _ in table(section)}) == count
    assert {verb for section in TABLES for _, verb in table(section)} == set(VERBS)
