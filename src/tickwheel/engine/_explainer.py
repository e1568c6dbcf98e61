"""
Explains why a lane or a job waits, by asking the parts of the engine that can delay it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from math import inf
from typing import Final, NamedTuple

from tickwheel.engine._claims import ClaimBatcher
from tickwheel.engine._dispatch import Dispatcher
from tickwheel.engine._leases import Leases
from tickwheel.engine._prefetch import Prefetcher
from tickwheel.engine._staged import StagedJobs, is_target
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine._staging import PauseFilter
from tickwheel.engine.resources import Resources
from tickwheel.jobs.explanation import Explanation, LaneState, WaitReason, explained
from tickwheel.jobs.model import Job

__all__ = ["OTHERS", "Explainer"]

_LANES_MAX: Final = 50
"""Maximum number of lanes that are reported by name. The figures of all other lanes are added up."""
OTHERS: Final = "(others)"
_NO_WAIT: Final = (0, 0, None)
_REST: Final = 99
"""A report is reused for this multiple of the time that it took to make, but at most for 15 s."""
_REST_MAX_S: Final = 15.0


class Explainer:
    def __init__(
        self,
        resources: Resources,
        *,
        staged: StagedJobs,
        claims: ClaimBatcher,
        dispatcher: Dispatcher,
        pause_filter: PauseFilter,
        leases: Leases,
        prefetchers: Sequence[Prefetcher],
    ) -> None:
        self._owner = resources.owner
        self._store = resources.store
        self._clock = resources.clock
        self._staged = staged
        self._claims = claims
        self._dispatcher = dispatcher
        self._pause_filter = pause_filter
        self._leases = leases
        self._prefetchers = prefetchers
        self._monotonic = resources.runtime.monotonic
        self._reported: list[LaneState] | None = None
        self._report_at = 0.0

    def lanes(self) -> list[LaneState]:
        """
        Return up to 50 lanes that have jobs in memory or running, and the sum of all other lanes as `OTHERS`.

        Lanes whose jobs have waited longest come first. Costs a microsecond for each lane and each waiting job.
        """
        queued, full = self._dispatcher.waiting_by_lane(), self.full_lanes()
        figures = self._figures(queued, full)
        first = nsmallest(_LANES_MAX, figures)
        states = [self._state(each.lane, queued, full) for each in first]
        if len(figures) <= _LANES_MAX:
            return states
        named = {each.lane for each in first}
        others = [each for each in figures if each.lane not in named]
        return [*states, _sum(others, self._state(min(others).lane, queued, full).reason)]

    def report(self) -> list[LaneState]:
        """
        Return `lanes()`, or its last result if that is recent, so that reports take about 1 % of a thread's time.
        """
        started = self._monotonic()
        if self._reported is None or started >= self._report_at:
            self._reported = self.lanes()
            ended = self._monotonic()
            self._report_at = ended + min(_REST * (ended - started), _REST_MAX_S)
        return self._reported

    def held_lanes(self) -> list[LaneState]:
        queued, full = self._dispatcher.waiting_by_lane(), self.full_lanes()
        first = nsmallest(_LANES_MAX, (each for each in self._figures(queued, full) if not each.is_free))
        return [self._state(each.lane, queued, full) for each in first]

    def full_lanes(self) -> dict[str, WaitReason]:
        return {lane: reason for prefetcher in self._prefetchers for lane, reason in prefetcher.full_lanes().items()}

    def explain(self, job: Job) -> Explanation | None:
        """
        Return why *job* does not run here now, or None if it is not due or already runs.

        *job* must be pending or running in the store, in a shard of this process.
        """
        if (found := self._of_process(job)) is not None:
            return found
        entry = self._staged.entry_of(job.key)
        if entry is not None and entry.phase is Phase.STAGED:
            entry = None
        if entry is not None and entry.job.generation == job.generation:
            return None if entry.has_started else self._of_attempt(job)
        return None if job.due_at > self._clock.now_ms() else self._of_pending(job, entry)

    def _of_process(self, job: Job) -> Explanation | None:
        prefetcher = self._prefetchers[self._store.shard_of(job.key) % len(self._prefetchers)]
        if not self._leases.is_trusted():
            return self._answer(job, WaitReason.LEASE_NOT_TRUSTED, "the leases of its process were not renewed in time")
        if prefetcher.adjuster.is_on_way(job) or prefetcher.adjuster.needs_redate(job):
            return self._answer(job, WaitReason.CLOCK_SET, "the clock was set, and its instant is written again")
        return None

    def _of_attempt(self, job: Job) -> Explanation:
        state = self._state_of(self._staged.lanes.of(job.target, job.handler))
        if job.target == "pull":
            text = f"its attempt is counted, and no worker has leased it from the queue {job.handler!r}"
            return self._answer(job, WaitReason.NO_WORKER, text, state)
        if state is not None and state.reason is WaitReason.BUSY:
            return self._answer(job, WaitReason.BUSY, f"its attempt is counted, and {_words(state)}", state)
        return self._answer(job, WaitReason.STARTING, "its attempt is counted, and it starts at its instant", state)

    def _of_pending(self, job: Job, other: StagedJob | None) -> Explanation:
        state = None
        if (lack := self._pause_filter.lack(job)) is not None:
            reason, text = WaitReason.NO_HANDLER, lack
        elif other is not None:
            reason = WaitReason.PREVIOUS_RUN
            text = f"attempt {other.attempt} of generation {other.job.generation} of its key has not ended"
        else:
            lane = self._staged.lanes.of(job.target, job.handler)
            state = self._state_of(lane)
            if state is None and not self._staged.is_moving(job.target, job.handler):
                state = self._state_of(job.target)  # the stalled lanes of a target may be full together
            state = state or LaneState(lane)
            reason, text = self._held_up(state)
        return self._answer(job, reason, text, state)

    def _held_up(self, state: LaneState) -> tuple[WaitReason, str]:
        if state.reason is not None:
            return state.reason, _words(state)
        if self._staged.free <= 0:
            return WaitReason.NO_ROOM, f"all {self._staged.size} places for jobs in memory are taken"
        if self._claims.held:
            return WaitReason.BUSY, f"{self._staged.busy} attempts are under way in all, as many as may be"
        return WaitReason.STARTING, "nothing holds it up: its attempt is about to be counted"

    def _answer(self, job: Job, reason: WaitReason, text: str, state: LaneState | None = None) -> Explanation:
        lane = self._staged.lanes.of(job.target, job.handler)
        return explained(job, lane, reason, text, owner=self._owner, state=state)

    def _state_of(self, lane: str) -> LaneState | None:
        state = self._state(lane, self._dispatcher.waiting_by_lane(), self.full_lanes())
        return None if state.reason is None and not state.running else state

    def _state(self, lane: str, queued: Mapping[str, Sequence[int]], full: Mapping[str, WaitReason]) -> LaneState:
        state = self._claims.state(lane) or LaneState(lane)
        if instants := queued.get(lane):
            oldest = min(instants) if state.oldest_due_at is None else min(*instants, state.oldest_due_at)
            waiting, reason = state.waiting + len(instants), state.reason or WaitReason.BUSY
            state = replace(state, reason=reason, waiting=waiting, oldest_due_at=oldest)
        if lane in full:
            state = replace(state, reason=full[lane], is_full=True)
        return replace(state, staged=self._staged.waiting_in(lane))

    def _figures(self, queued: Mapping[str, Sequence[int]], full: Mapping[str, WaitReason]) -> list[_Figures]:
        staged, known = self._staged.by_lane(), self._claims.waits()
        found: list[_Figures] = []
        for lane in {**staged, **known, **queued, **full}:
            waiting, running, oldest = known.get(lane, _NO_WAIT)
            if instants := queued.get(lane):
                waiting += len(instants)
                oldest = min(instants) if oldest is None else min(*instants, oldest)
            count = self._staged.waiting_in(lane) if is_target(lane) else staged.get(lane, 0)
            is_free = not waiting and lane not in full
            first = inf if oldest is None else oldest
            found.append(_Figures(is_free, first, -waiting, -count, lane, running, lane in full))
        return found


class _Figures(NamedTuple):
    is_free: bool
    oldest: float
    less_waiting: int
    less_staged: int
    lane: str
    running: int
    is_full: bool


def _sum(found: Sequence[_Figures], reason: WaitReason | None) -> LaneState:
    oldest = min(each.oldest for each in found)
    return LaneState(
        OTHERS,
        reason,
        staged=-sum(each.less_staged for each in found if not is_target(each.lane)),
        waiting=-sum(each.less_waiting for each in found),
        running=sum(each.running for each in found),
        oldest_due_at=None if oldest == inf else int(oldest),
        is_full=any(each.is_full for each in found),
    )


_WORDS: Final[dict[WaitReason, Callable[[LaneState], str]]] = {
    WaitReason.RATE: lambda state: f"its handler begins {state.rate:g} attempts a second",
    WaitReason.CONCURRENCY: lambda state: f"{state.running} of {state.concurrency} attempts are under way",
    WaitReason.NO_WORKER: lambda _: "no worker asks for the jobs of its queue",
    WaitReason.BUSY: lambda state: f"{state.running} attempts of its lane are under way, and no place is free for it",
    WaitReason.PAUSED: lambda _: "its scope is paused",
    WaitReason.NO_HANDLER: lambda _: "its handler is not registered here",
}


def _words(state: LaneState) -> str:
    reason = state.reason
    assert reason is not None
    words = _WORDS[reason](state) if reason is not WaitReason.RATE or state.rate else "its rate is used up"
    waiting = f"; {state.waiting} due jobs of it wait in memory" if state.waiting else ""
    full = f"; it has more jobs than its share of memory ({state.staged} are there), and the others wait in the store"
    return words + waiting + (full if state.is_full else "")
