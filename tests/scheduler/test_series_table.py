"""
The table of docs/schedules.md that says what a set does to a series: each of its cells is tried.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwheel.scheduler import RetryPolicy, Snooze
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
}


def table():
    """
    Return the cells by situation and verb.
    """
    text = PAGE.read_text().partition("## Setting a series again")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    heads, _, *rows = rows
    return {(row[0], verb): cell for row in rows for verb, cell in zip(heads[1:], row[1:], strict=True)}


class World:
    """
    A series whose handler follows a list of results.
    """

    def __init__(self):
        self.clock, self.ran, self.results = ManualClock(), [], []
        self.scheduler = InlineScheduler(self.clock)
        self.scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=600_000, jitter=0))(self.handle)
        self.during = None

    def handle(self, payload, firing):
        """
        Note the run, do what is asked for meanwhile, and end as the next result says.
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
        Set the series, and keep the answer.
        """
        self.answer = self.scheduler.set("k", **fields)
        return self.answer

    def in_situation(self, situation, fields):
        """
        Bring the series into a *situation*, and set it there.
        """
        self.set(RULE)
        if situation == "a run is owed, as after an outage":
            self.clock.jump(HOUR + 60)
            self.set(fields)
            self.scheduler.start()
            return
        self.scheduler.start()
        if situation == "it has ended":
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
                fields = fields | {"max_runs": 1} if fields.get("every") == HOUR else fields
            self.clock.advance(HOUR + 1 + (HOUR if situation == "it is a dead letter" else 0))
        self.set(fields)


@pytest.mark.parametrize(("situation", "verb"), list(table()))
def test_each_cell(situation, verb):
    """
    The answer is the word that the cell begins with, and the rest of the cell comes true.
    """
    cell, world = table()[situation, verb], World()
    world.in_situation(situation, VERBS[verb])
    outcome, _, more = cell.partition(": ")
    assert world.answer.outcome == outcome
    job, payload = world.scheduler.get("k"), VERBS[verb]["payload"]
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


def test_all_are_there():
    """
    The table has a row for each situation and a column for each verb that is tried.
    """
    situations = dict.fromkeys(situation for situation, _ in table())
    assert len(situations) == 8
    assert {verb for _, verb in table()} == set(VERBS)
