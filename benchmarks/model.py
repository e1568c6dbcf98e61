"""
The data types of a benchmark: the cases that are run, their measures, the medians, and the bars (required limits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["NO_LIMIT", "Bar", "Case", "Measure", "Row", "Verdict"]


NO_LIMIT = "no bar"
"""Text in place of a limit, for a figure that is shown but not judged."""


@dataclass(frozen=True, slots=True)
class Case:
    """
    A workload (*work*) to run on a contender (*subject*).

    `MODULE.measure(work, subject, pending, **settings)` runs it in a separate process. It is repeated *reps* times. If
    *reps* is None, the number of repetitions of the whole run applies.
    """

    module: str
    work: str
    subject: str
    pending: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    reps: int | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """
    One figure that a run of a case has measured.

    Attributes:
        work: A stable name of the measured quantity.
        value: The amount, in the unit.
        unit: "ns", "bytes", "per second", ...
        clock: "cpu" (of the whole process, all threads), "wall", or "" if no time was measured.
    """

    work: str
    value: float
    unit: str
    clock: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """
    The median of a measure over all repetitions.
    """

    work: str
    subject: str
    pending: int
    value: float
    unit: str
    clock: str
    reps: int

    def as_dict(self) -> dict[str, Any]:
        """
        Return the row in its JSON form.
        """
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    The result of comparing a figure with its bar.
    """

    text: str
    subject: str
    pending: int
    figure: float
    unit: str
    bar: str
    is_met: bool

    def as_dict(self) -> dict[str, Any]:
        """
        Return the verdict in its JSON form.
        """
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Bar:
    """
    A requirement for a contender. It limits one row of the contender, or the ratio of a peer's row to that row.

    Without a limit, the figure is shown but not judged.

    Attributes:
        work: The work of the contender's row.
        clock: The clock of both rows.
        subject: The contender that has to meet the bar.
        against: The peer. None for a limit on the row itself.
        against_work: The work of the peer's row, if its name differs.
        pending: The only number of timers that is judged. None if each number is judged.
        against_pending: The number of timers in the peer's row, if it differs.
        at_least: The smallest figure that meets the bar.
        at_most: The largest figure that meets the bar.
        inverse: True if the contender's row is divided by the peer's row, as for rates.
    """

    work: str
    clock: str = "cpu"
    subject: str = "tickwheel"
    against: str | None = None
    against_work: str | None = None
    pending: int | None = None
    against_pending: int | None = None
    at_least: float | None = None
    at_most: float | None = None
    inverse: bool = False

    def judge(self, rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """
        Return a verdict for each number of timers that was measured.

        Leave out each number for which the peer's row is missing.
        """
        verdicts = []
        for row in self._find(rows, self.work, self.subject):
            if self.pending not in {None, row["pending"]}:
                continue
            figure, unit = row["value"], row["unit"]
            if self.against is not None:
                peers = self._find(rows, self.against_work or self.work, self.against)
                pending = self.against_pending or row["pending"]
                peer = next((other["value"] for other in peers if other["pending"] == pending), None)
                if not peer or not figure:
                    continue
                figure, unit = (figure / peer if self.inverse else peer / figure), f"x {self.against}"
                if self.against_pending:
                    unit += f" at {self.against_pending:,}"
            verdicts.append(self._verdict(row["pending"], figure, unit))
        return verdicts

    def _find(self, rows: Sequence[Mapping[str, Any]], work: str, subject: str) -> list[Mapping[str, Any]]:
        wanted = (work, subject, self.clock)
        return [row for row in rows if (row["work"], row["subject"], row["clock"]) == wanted]

    def _verdict(self, pending: int, figure: float, unit: str) -> Verdict:
        is_met = (self.at_least is None or figure >= self.at_least) and (self.at_most is None or figure <= self.at_most)
        bar = NO_LIMIT
        if self.at_least is not None:
            bar = f"at least {self.at_least:g}"
        elif self.at_most is not None:
            bar = f"at most {self.at_most:g}"
        return Verdict(self.work, self.subject, pending, figure, unit, bar, is_met)
