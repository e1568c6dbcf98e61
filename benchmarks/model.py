"""
The nouns of a benchmark: a case that is run, a measure that comes back, a row of medians, a bar to clear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Bar", "Case", "Measure", "Row", "Verdict"]


@dataclass(frozen=True, slots=True)
class Case:
    """
    One work of one subject, run in a process of its own by `MODULE.measure(work, subject, pending, **settings)`.

    It is repeated *reps* times, or as often as the whole run where that is None.
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
    What one run of a case found; a case may find several.

    Attributes:
        work: A stable name.
        value: How much of the unit.
        unit: "ns", "bytes", "per second", ...
        clock: "cpu" (of the whole process, all threads), "wall", or "" where no time was taken.
    """

    work: str
    value: float
    unit: str
    clock: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """
    The median of a measure over the repetitions.
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
        Return the row as it is in the JSON.
        """
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What a bar asks and what the rows say.
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
        Return the verdict as it is in the JSON.
        """
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Bar:
    """
    A bar that a subject has to clear: a limit on one row, or on the ratio of a peer's row to it.

    Without a limit the figure is only shown.

    Attributes:
        work: The row of the subject.
        clock: Of both rows.
        subject: The contender that has to clear it.
        against: The peer; None for a limit on the row itself.
        against_work: The peer's row, where its work has another name.
        pending: The one population that is judged; None for each.
        against_pending: The population of the peer's row, where it is another one.
        at_least: The least figure that clears it.
        at_most: The greatest figure that clears it.
        inverse: Whether the ratio is the subject's over the peer's, as for rates.
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
        Return a verdict for each population that was measured; none where a row is missing.
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
        bar = "no bar"
        if self.at_least is not None:
            bar = f"at least {self.at_least:g}"
        elif self.at_most is not None:
            bar = f"at most {self.at_most:g}"
        return Verdict(self.work, self.subject, pending, figure, unit, bar, is_met)
