"""
One job in memory, the states it may be in, and the queues in which it waits.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tickwheel._core import make_fast
from tickwheel.jobs.model import Job, Progress
from tickwheel.observe.tracing import Span
from tickwheel.targets import Call

if TYPE_CHECKING:
    from tickwheel.engine._lanes import Lane

__all__ = ["TABLE", "Phase", "Ran", "StagedJob", "Step", "Waiting"]

_SWEEP_MIN: Final = 100


class Phase(StrEnum):
    """
    The states of a job on its way, as the table has them.
    """

    FAR = "far"
    STAGED = "staged"
    BEGINNING = "beginning"
    BEGUN = "begun"
    RUNNING = "running"
    SETTLING = "settling"


class Step(StrEnum):
    """
    The events that move a job from one state to another.
    """

    STAGE = "stage"
    DROP = "drop"
    BEGIN = "begin"
    BEGUN = "begun"
    REFUSE = "refuse"
    START = "start"
    WITHDRAW = "withdraw"
    END = "end"
    SETTLE = "settle"


TABLE: Final[dict[Step, dict[Phase, Phase]]] = {
    Step.STAGE: {Phase.FAR: Phase.STAGED},
    Step.DROP: {Phase.STAGED: Phase.FAR},
    Step.BEGIN: {Phase.STAGED: Phase.BEGINNING},
    Step.BEGUN: {Phase.BEGINNING: Phase.BEGUN},
    Step.REFUSE: {Phase.BEGINNING: Phase.FAR},
    Step.START: {Phase.BEGUN: Phase.RUNNING},
    Step.WITHDRAW: {Phase.BEGINNING: Phase.SETTLING, Phase.BEGUN: Phase.SETTLING},
    Step.END: {Phase.BEGUN: Phase.SETTLING, Phase.RUNNING: Phase.SETTLING},
    Step.SETTLE: {Phase.SETTLING: Phase.FAR},
}
"""By step, the states in which it may happen and what follows; in any other state it does not happen."""


class Ran(NamedTuple):
    """
    The time that an attempt took, in ms of the store's clock.
    """

    begun: int
    ended: int
    doubt: int = 0
    """Maximum error of `ended`, which is never ahead."""

    def after(self, wait: int) -> int:
        """
        Return the instant *wait* ms after the end, which is never early.
        """
        return self.ended + self.doubt + wait if wait else self.ended


@make_fast
@dataclass(slots=True, eq=False, repr=False)
class StagedJob:
    """
    One job in memory.

    Attributes:
        job: As the store had it when it was staged: pending.
        epoch: Of the lease under which it fires.
        fire_at: When to fire it: its instant, or later where its handler's rate is used up.
        phase: Where it is; changed by `StagedJobs` alone.
        was_due: True if its instant had come when it was staged.
        is_booked: Whether the rate was asked.
        lane: Where it holds a place while it is begun.
        call: How to run it, from its instant on.
        late_at: When its timeout is over, by the monotonic clock.
        is_late: Whether that was so.
        expire: Cancels its task, kills its process, or lets its target drop it, if it has one of these.
        is_stopped: Whether it was asked to stop: its job was cancelled while it ran, or its next run is due.
        is_overtaken: Whether it was for the latter.
        has_started: Whether its target has it, or had.
        begun_at: When its target began with it, in monotonic seconds, if anybody wants to know.
        ready_at: The time in ms of the store's clock at which it was handed over to be run; 0 before.
        fired_at: The same in ms of the store's clock; 0 before.
        begun_ms: The same in whole ms by the setting of the clock in which its end is judged, if its job recurs.
        progress: How far its handler says that it has come.
        ran_ms: How long the target took.
        era: Of the clock, when it was judged what follows from its end.
        is_drawn: Whether its firing is traced if its job carries no trace.
        span: Of its firing, if that is traced.
    """

    job: Job
    epoch: int
    fire_at: int
    phase: Phase = Phase.FAR
    was_due: bool = False
    is_booked: bool = False
    lane: Lane | None = None
    call: Call | None = None
    late_at: float = math.inf
    is_late: bool = False
    expire: Callable[[], object] | None = None
    is_stopped: bool = False
    is_overtaken: bool = False
    has_started: bool = False
    begun_at: float | None = None
    ready_at: float = 0.0
    fired_at: float = 0.0
    begun_ms: int | None = None
    progress: Progress | None = None
    ran_ms: float = 0.0
    era: int = 0
    is_drawn: bool = False
    span: Span | None = None

    @property
    def attempt(self) -> int:
        """
        The number of the attempt that was counted for it, from 1.
        """
        return self.job.attempt + 1

    def ran(self, now_ms: int, doubt: int) -> Ran:
        """
        Return when it ran, ending at *now_ms*, or up to *doubt* ms later.
        """
        return Ran(now_ms if self.begun_ms is None else self.begun_ms, now_ms, doubt)


class Waiting(deque[StagedJob]):
    """
    A queue from which entries may be taken back without a search: they leave the phase in which they wait.

    Code that takes one out has to look at its phase. They are swept out once they are half of what waits.

    Args:
        phase: In which an entry waits here.
    """

    __slots__ = ("_phase", "_sweep_at")

    def __init__(self, phase: Phase) -> None:
        super().__init__()
        self._phase = phase
        self._sweep_at = _SWEEP_MIN

    def put(self, entry: StagedJob) -> None:
        """
        Let *entry* wait. O(1) amortised.
        """
        self.append(entry)
        if len(self) > self._sweep_at:
            waiting = [each for each in self if each.phase is self._phase]
            self.clear()
            self.extend(waiting)
            self._sweep_at = 2 * len(waiting) + _SWEEP_MIN
