"""
Explains why a job has not run yet.

The store shows whether the job is due, paused or without a handler, and which process fires it. Only the firing process
knows the other reasons, but its heartbeats show to all processes which lanes wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tickwheel.client.client import Client
from tickwheel.host.lane_names import LaneNames
from tickwheel.jobs import checks
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.explanation import Explanation, LaneState, WaitReason, explained, unreachable
from tickwheel.jobs.model import Job, Pause, State, scope_over

if TYPE_CHECKING:
    from tickwheel.engine.engine import Engine

__all__ = ["explain"]


def explain(client: Client, engine: Engine | None, lanes: LaneNames, key: str) -> Explanation | None:
    """
    Return the reason why the job of *key* has not run yet; None if the job does not exist.

    *engine* is None if this process does not fire jobs.
    """
    checks.check_key(key)
    try:
        job = client.get(key)
        return None if job is None else _Question(client, engine, lanes, job).answer()
    except StoreError as error:
        if not error.is_transient:
            raise
        return unreachable(key, error)


class _Question:
    def __init__(self, client: Client, engine: Engine | None, lanes: LaneNames, job: Job) -> None:
        self._lane = lanes.of(job.target, job.handler)
        self._client = client
        self._engine = engine
        self._job = job
        self._now = client.clock.now_ms()
        self._node = self._owner_of(job)

    def answer(self) -> Explanation:
        engine = self._engine
        is_here = engine is not None and (self._node == engine.name or self._comes_here(engine))
        here = engine.explain(self._job) if engine is not None and is_here else None
        return self._begun(here) or self._set_aside() or here or self._pending()

    def _begun(self, here: Explanation | None) -> Explanation | None:
        job = self._job
        if job.state is State.DEAD:
            return self._because(WaitReason.DEAD, f"no attempt is left after {job.attempt}: {job.error or 'no error'}")
        if job.state is State.RUNNING:
            where = "" if self._node is None else f" at {self._node}"
            return here or self._because(WaitReason.RUNNING, f"attempt {job.attempt} is under way{where}")
        return None

    def _set_aside(self) -> Explanation | None:
        if (pause := self._pause()) is not None:
            of = f"its scope {pause.scope!r}" if pause.scope else "it"
            note = f": {pause.note}" if pause.note else ""
            return self._because(WaitReason.PAUSED, f"{of} was paused by {pause.by} {self._ago(pause.at)}{note}")
        if not self._job.lacks_handler or (self._engine is not None and self._comes_here(self._engine)):
            return None
        return self._because(WaitReason.NO_HANDLER, self._lack())

    def _comes_here(self, engine: Engine) -> bool:
        return self._job.lacks_handler and engine.pause_filter.lack(self._job) is None

    def _pending(self) -> Explanation:
        if self._job.due_at > self._now:
            return self._later()
        if self._node is None:
            text = f"it was due {self._ago(self._job.due_at)}, and no process fires its shard"
            return self._because(WaitReason.NO_OWNER, text)
        return self._elsewhere()

    def _pause(self) -> Pause | None:
        if self._job.pause is not None:
            return self._job.pause
        paused = {pause.scope: pause for pause in self._client.scopes()}
        scope = scope_over(self._job.target, self._job.handler, paused)
        return None if scope is None else paused[scope]

    def _lack(self) -> str:
        job, engine = self._job, self._engine
        lack = job.error if engine is None else engine.pause_filter.lack(job) or job.error
        what = f"no process that fires can run it; it needs the handler {job.handler!r} of the target {job.target!r}"
        return what if lack is None else f"{what}: {lack}"

    def _later(self) -> Explanation:
        job = self._job
        due = f"due in {(job.due_at - self._now) / 1000:,.3f} s"
        if self._node is None:
            due += ", and no process fires its shard now"
        if job.error is None and not job.attempt:
            return self._because(WaitReason.NOT_DUE, f"it is {due}", until=job.due_at)
        failed = f"attempt {job.attempt} of {job.retry.attempts} failed" if job.attempt else "it was not delivered"
        because = f" ({job.error})" if job.error is not None else ""
        return self._because(WaitReason.RETRY, f"{failed}{because}, and the next attempt is {due}", until=job.due_at)

    def _elsewhere(self) -> Explanation:
        figures: Any = next((node.figures for node in self._client.nodes() if node.owner == self._node), None)
        for held in (figures or {}).get("lanes", ()):
            if held["lane"] == self._lane and held["reason"] is not None:
                state = LaneState(**{**held, "reason": WaitReason(held["reason"])})
                counts = f"{state.waiting} waiting and {state.running} running jobs of its lane"
                text = f"{held['reason'].replace('_', ' ')}: {self._node} reports {counts}"
                return self._because(WaitReason(held["reason"]), text, state=state)
        text = f"it was due {self._ago(self._job.due_at)} at {self._node}, which reports nothing that holds up its lane"
        return self._because(WaitReason.OTHER_NODE, text)

    def _because(
        self, reason: WaitReason, text: str, *, until: int | None = None, state: LaneState | None = None
    ) -> Explanation:
        return explained(self._job, self._lane, reason, text, until=until, owner=self._node, state=state)

    def _owner_of(self, job: Job) -> str | None:
        number = self._client.store.shard_of(job.key)
        shard = next((each for each in self._client.shards() if each.number == number), None)
        if shard is None or (shard.until is not None and shard.until < self._now):
            return None
        return shard.owner

    def _ago(self, at: int) -> str:
        return f"{max(0, self._now - at) / 1000:,.3f} s ago"
