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
    from tickwheel.engine._lanes import HandlerLimit
    from tickwheel.engine._verdict import Verdict

__all__ = ["TRANSITIONS", "LazyDeque", "Phase", "RunSpan", "StagedJob", "Step"]

_SWEEP_MIN: Final = 100


class Phase(StrEnum):
    FAR = "far"
    STAGED = "staged"
    BEGINNING = "beginning"
    DOUBTFUL = "doubtful"
    BEGUN = "begun"
    RUNNING = "running"
    SETTLING = "settling"


class Step(StrEnum):
    STAGE = "stage"
    CLAIM = "claim"
    DROP = "drop"
    BEGIN = "begin"
    DOUBT = "doubt"
    BEGUN = "begun"
    REFUSE = "refuse"
    START = "start"
    WITHDRAW = "withdraw"
    END = "end"
    SETTLE = "settle"


TRANSITIONS: Final[dict[Step, dict[Phase, Phase]]] = {
    Step.STAGE: {Phase.FAR: Phase.STAGED},
    Step.CLAIM: {Phase.FAR: Phase.BEGUN},
    Step.DROP: {Phase.STAGED: Phase.FAR},
    Step.BEGIN: {Phase.STAGED: Phase.BEGINNING},
    Step.DOUBT: {Phase.BEGINNING: Phase.DOUBTFUL},
    Step.BEGUN: {Phase.BEGINNING: Phase.BEGUN, Phase.DOUBTFUL: Phase.BEGUN},
    Step.REFUSE: {Phase.BEGINNING: Phase.FAR, Phase.DOUBTFUL: Phase.FAR},
    Step.START: {Phase.BEGUN: Phase.RUNNING},
    Step.WITHDRAW: {Phase.BEGINNING: Phase.SETTLING, Phase.BEGUN: Phase.SETTLING},
    Step.END: {Phase.BEGUN: Phase.SETTLING, Phase.RUNNING: Phase.SETTLING},
    Step.SETTLE: {Phase.SETTLING: Phase.FAR},
}
"""For each event, the next state by present state. An event that does not list the present state is refused."""


class RunSpan(NamedTuple):
    """
    Start and end of an attempt, in ms of the store's clock.
    """

    begun: int
    ended: int
    doubt: int = 0
    """Maximum error of `ended` in ms. The true end is never earlier than `ended`."""

    def after(self, wait: int) -> int:
        return self.ended + self.doubt + wait if wait else self.ended


@make_fast
@dataclass(slots=True, eq=False, repr=False)
class StagedJob:
    """
    One job in memory.

    Attributes:
        fire_at: Time to fire it: its due time, or later if its handler's rate is used up.
        phase: Its state; only `StagedJobs` changes it.
        was_due: True if it was due when it was staged.
        rate_reserved: True if the rate limiter has granted a start time.
        lane: The lane in which it holds a place after its claim.
        late_at: End of its timeout, on the monotonic clock.
        is_late: True if the timeout has passed.
        expire: Cancels its task, kills its process, or makes its target drop it, if any of these is possible.
        is_stopped: True if it was asked to stop, because its job was cancelled or its next run is due.
        overlap_cancelled: True if it was asked to stop because its next run is due.
        has_started: True as soon as its target may run it.
        begun_at: Monotonic time at which its target began, if a hook or the tracer needs it.
        ready_at: Time at which it was dispatched, in ms of the store's clock; 0 until then.
        fired_at: Time at which its target began, in ms of the store's clock; 0 until then.
        begun_ms: For a recurring job, the start of the run in whole ms, as if the store's clock had not been set.
        clock_step: Number of the clock step (see `StoreClock`) at which its next due time was computed.
        is_sampled: True if its firing is traced even if its job has no trace.
        verdict: The verdict on its attempt, if the attempt has ended; None for a plain success.
    """

    job: Job
    epoch: int
    fire_at: int
    phase: Phase = Phase.FAR
    was_due: bool = False
    rate_reserved: bool = False
    lane: HandlerLimit | None = None
    call: Call | None = None
    late_at: float = math.inf
    is_late: bool = False
    expire: Callable[[], object] | None = None
    is_stopped: bool = False
    overlap_cancelled: bool = False
    has_started: bool = False
    begun_at: float | None = None
    ready_at: float = 0.0
    fired_at: float = 0.0
    begun_ms: int | None = None
    progress: Progress | None = None
    ran_ms: float = 0.0
    clock_step: int = 0
    is_sampled: bool = False
    span: Span | None = None
    verdict: Verdict | None = None

    @property
    def attempt(self) -> int:
        return self.job.attempt + 1

    def ran(self, now_ms: int, doubt: int) -> RunSpan:
        return RunSpan(now_ms if self.begun_ms is None else self.begun_ms, now_ms, doubt)


class LazyDeque(deque[StagedJob]):
    """
    A queue of entries in the state *phase*. A withdrawn entry stays in the queue, which saves a search.

    The caller must check the state of each entry that it takes. Withdrawn entries are removed from time to time.
    """

    __slots__ = ("_phase", "_sweep_at")

    def __init__(self, phase: Phase) -> None:
        super().__init__()
        self._phase = phase
        self._sweep_at = _SWEEP_MIN

    def put(self, entry: StagedJob) -> None:
        self.append(entry)
        if len(self) > self._sweep_at:
            waiting = [each for each in self if each.phase is self._phase]
            self.clear()
            self.extend(waiting)
            self._sweep_at = 2 * len(waiting) + _SWEEP_MIN
