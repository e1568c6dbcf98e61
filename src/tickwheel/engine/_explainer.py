"""
Explains why a lane or a job waits, by asking the roles that decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import nlargest, nsmallest
from typing import Final

from tickwheel.engine._armer import Armer
from tickwheel.engine._dispatcher import Dispatcher
from tickwheel.engine._leases import Leases
from tickwheel.engine._runnable import Runnable
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine._stager import Stager
from tickwheel.engine.resources import Resources
from tickwheel.jobs.explanation import Explanation, LaneState, WaitReason, explained
from tickwheel.jobs.model import Job

__all__ = ["OTHERS", "Explainer"]

_LANES_MAX: Final = 50
"""Maximum number of lanes that are reported by name; the figures of the others are added up."""
OTHERS: Final = "(others)"


class Explainer:
    """
    Reads the figures of the roles. All methods may be called from any thread.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        staged: StagedJobs,
        armer: Armer,
        dispatcher: Dispatcher,
        runnable: Runnable,
        leases: Leases,
        stagers: Sequence[Stager],
    ) -> None:
        self._owner = resources.owner
        self._store = resources.store
        self._clock = resources.clock
        self._options = resources.options
        self._staged = staged
        self._armer = armer
        self._dispatcher = dispatcher
        self._runnable = runnable
        self._leases = leases
        self._stagers = stagers

    def lanes(self) -> list[LaneState]:
        """
        Return the lanes that have jobs in memory or under way: up to 50, and the sum of the others as `OTHERS`.

        Lanes whose jobs have waited longest come first. O(lanes + waiting jobs).
        """
        states, staged = self._states(), self._staged.by_lane()
        idle = nlargest(_LANES_MAX, (lane for lane in staged if lane not in states), key=staged.__getitem__)
        found = [*states.values(), *(LaneState(lane, staged=staged[lane]) for lane in idle)]
        first = nsmallest(_LANES_MAX, found, key=_rank)
        named = {state.lane for state in first}
        others = [state for state in states.values() if state.lane not in named]
        if named.issuperset(staged) and not others:
            return first
        return [*first, _sum(others, sum(count for lane, count in staged.items() if lane not in named))]

    def held_lanes(self) -> list[LaneState]:
        """
        Return up to 50 lanes whose jobs wait, the longest waiting first. O(lanes under way + waiting jobs).
        """
        return nsmallest(_LANES_MAX, (each for each in self._states().values() if each.reason is not None), key=_rank)

    def full_lanes(self) -> dict[str, WaitReason]:
        """
        Return the lanes that exceed their share of memory, each with the reason for which its jobs wait.
        """
        return {lane: reason for stager in self._stagers for lane, reason in stager.full_lanes().items()}

    def explain(self, job: Job) -> Explanation | None:
        """
        Return why *job* does not run here, or None if it is not due or runs.

        *job* must be pending or running in a shard of this process.
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
        stager = self._stagers[self._store.shard_of(job.key) % len(self._stagers)]
        if not self._leases.is_trusted():
            return self._answer(job, WaitReason.LEASE_NOT_TRUSTED, "the leases of its process were not renewed in time")
        if stager.redater.is_on_way(job) or stager.redater.is_off(job):
            return self._answer(job, WaitReason.CLOCK_SET, "the clock was set, and its instant is written again")
        return None

    def _of_attempt(self, job: Job) -> Explanation:
        state = self._states().get(self._staged.lanes.of(job.target, job.handler))
        if job.target == "pull":
            text = f"its attempt is counted, and no worker has leased it from the queue {job.handler!r}"
            return self._answer(job, WaitReason.NO_WORKER, text, state)
        if state is not None and state.reason is WaitReason.BUSY:
            return self._answer(job, WaitReason.BUSY, f"its attempt is counted, and {_words(state)}", state)
        return self._answer(job, WaitReason.STARTING, "its attempt is counted, and it starts at its instant", state)

    def _of_pending(self, job: Job, other: StagedJob | None) -> Explanation:
        state = None
        if (lack := self._runnable.lack(job)) is not None:
            reason, text = WaitReason.NO_HANDLER, lack
        elif other is not None:
            reason = WaitReason.PREVIOUS_RUN
            text = f"attempt {other.attempt} of generation {other.job.generation} of its key has not ended"
        else:
            lane, states = self._staged.lanes.of(job.target, job.handler), self._states()
            state = states.get(lane)
            if state is None and not self._staged.is_moving(job.target, job.handler):
                state = states.get(job.target)  # of all still lanes of the target, if they have no room together
            state = state or LaneState(lane)
            reason, text = self._held_up(state)
        return self._answer(job, reason, text, state)

    def _held_up(self, state: LaneState) -> tuple[WaitReason, str]:
        if state.reason is not None:
            return state.reason, _words(state)
        if self._staged.free <= 0:
            return WaitReason.NO_ROOM, f"all {self._staged.size} places for jobs in memory are taken"
        if self._armer.held:
            return WaitReason.BUSY, f"{self._staged.busy} attempts are under way in all, as many as may be"
        return WaitReason.STARTING, "nothing holds it up: its attempt is about to be counted"

    def _answer(self, job: Job, reason: WaitReason, text: str, state: LaneState | None = None) -> Explanation:
        lane = self._staged.lanes.of(job.target, job.handler)
        return explained(job, lane, reason, text, owner=self._owner, state=state)

    def _states(self) -> dict[str, LaneState]:
        states = self._armer.states()
        for lane, instants in self._dispatcher.waiting_by_lane().items():
            state = states.get(lane) or LaneState(lane)
            oldest = min(instants) if state.oldest_due_at is None else min(*instants, state.oldest_due_at)
            waiting = state.waiting + len(instants)
            reason = state.reason or WaitReason.BUSY
            states[lane] = replace(state, reason=reason, waiting=waiting, oldest_due_at=oldest)
        for lane, reason in self.full_lanes().items():
            states[lane] = replace(states.get(lane) or LaneState(lane), reason=reason, is_full=True)
        return {lane: replace(state, staged=self._staged.waiting_in(lane)) for lane, state in states.items()}


def _rank(state: LaneState) -> tuple[bool, float, int, int, str]:
    oldest = float("inf") if state.oldest_due_at is None else state.oldest_due_at
    return state.reason is None, oldest, -state.waiting, -state.staged, state.lane


def _sum(found: Sequence[LaneState], staged: int) -> LaneState:
    due = [state.oldest_due_at for state in found if state.oldest_due_at is not None]
    return LaneState(
        OTHERS,
        next((state.reason for state in found if state.reason is not None), None),
        staged=staged,
        waiting=sum(state.waiting for state in found),
        running=sum(state.running for state in found),
        oldest_due_at=min(due, default=None),
        is_full=any(state.is_full for state in found),
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
