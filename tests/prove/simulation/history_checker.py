"""
The checker of histories. It checks the promise of a durable scheduler in simple loops, without the scheduler's code.

Each violation has one of these kinds:
    lost        at the end, an acknowledged job is overdue or still running
    early       a handler began before its due time
    twice       a handler began, and no attempt was counted
    overtaken   a handler began after the answer that its job was moved, cancelled, replaced or paused
                or a retry began after the running job was asked to stop
    zombie      a begin or a settle took effect, or notifications were read, under a wrong epoch of the shard
                or a worker was promised more time by a node that had clearly lost the job
    answer      the store's answer to a write differs from the model's, or a caller got an untrue answer
    ended       an outcome was written or reported for a run that never took place
    series      a run of a recurring job was omitted, or came at an instant that is not in the series
    late        in a calm period a job was not begun within two and a half minutes
    repeated    a generation or an epoch was given out twice
    payload     a handler got the payload of another generation
    silent      a job with a healthy store and a healthy owner was more than five seconds overdue
    beside      a job began while another node, alive and with a valid lease, was running the same job
    handler     an attempt was begun on a node that lacks the handler
    scope       a node began or claimed a job of a scope that had been paused for some seconds
    clock       a job with a delay was begun more than five seconds before or after the delay had elapsed
    short       a process that fires nothing made a job due sooner than requested
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

from simulation._beside import Beside
from simulation._callers import Callers
from simulation._day import QUEUE, QUEUEING, VERSIONED
from simulation._equipment import EQUIPMENT, RULES
from simulation._health import Health
from simulation._series import Series, may_be_left_out, must_be_continued
from simulation._weather import LATE_NS, Weather
from simulation.history import (
    Answered,
    Called,
    Committed,
    Deployed,
    Ended,
    Event,
    Extended,
    Fault,
    Finished,
    Fired,
    Freed,
    Granted,
    History,
    Left,
    Returned,
    Scoped,
    Taken,
    TakenUp,
)
from tickwheel.jobs.checks import decode_payload
from tickwheel.jobs.model import (
    Answer,
    Begin,
    Claim,
    Declare,
    Job,
    Keep,
    Move,
    Outcome,
    Replay,
    Set,
    SetAside,
    SetPause,
    Settle,
    Settled,
    Write,
    key_of,
)
from tickwheel.testing._store_model import NEW, StoreModel

__all__ = ["Violation", "check_history"]

_EARLY_MS: Final = 0
_OVERDUE_MS: Final = 5_000

_SCARCE: Final = (*QUEUEING, *VERSIONED, *EQUIPMENT)
"""Handlers of few nodes or workers, whose jobs may have to wait."""

_NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Violation:
    """
    A violation, with its kind and its time.
    """

    kind: str
    at: int
    what: str

    def __str__(self) -> str:
        """
        Return the violation in one line.
        """
        return f"{self.kind} at {self.at / 1e9:.3f} s: {self.what}"


def check_history(history: History, shards: int) -> list[Violation]:
    """
    Return the violations in *history*, of which there should be none.
    """
    checker = _Checker(shards)
    for event in history.events:
        checker.take(event)
    checker.finish()
    return checker.violations


class _Checker:
    def __init__(self, shards: int) -> None:
        self.violations: list[Violation] = []
        self._model = StoreModel(lambda key: crc32(key.encode()) % shards)
        self._model.epochs = dict.fromkeys(range(shards), _NOBODY)
        self._epochs: defaultdict[int, int] = defaultdict(int)
        self._handlers: dict[str, tuple[str, ...]] = {}
        self._machines: dict[str, str] = {}
        """The current process of each node, such as "n1.2", by the node's name."""
        self._gone: set[str] = set()
        """The processes that have ended by a kill or a stop."""
        self._granted: set[int] = set()
        self._generations: set[int] = set()
        self._lives: dict[tuple[str, int], Any] = {}
        self._counted: Counter[tuple[str, str, int, int, int]] = Counter()
        self._counted_at: dict[tuple[str, str, int, int, int], int] = {}
        self._fired: set[tuple[str, str, int, int]] = set()
        self._settled: set[tuple[str, str, int, int]] = set()
        self._callers = Callers()
        self._final: dict[str, tuple[int, int]] = {}
        self._paused: dict[str, int] = {}
        self._stopped: dict[str, tuple[int, int, int]] = {}
        self._waiting: dict[str, tuple[int, int]] = {}
        self._begun_late: list[tuple[int, int, str]] = []
        self._weather = Weather()
        self._health = Health()
        self._beside = Beside()
        self._series = Series(self._weather)
        self._end: Finished | None = None

    def take(self, event: Event) -> None:  # noqa: C901, PLR0912 - one for each kind of event
        """
        Check the next event.
        """
        if isinstance(event, Granted | Freed | Fault | Finished):
            self._look_back(event.at)
        match event:
            case Committed():
                self._weather.committed(event)
                self._commit(event)
            case Fired():
                self._fire(event)
                self._health.fired(event)
                self._series.fired(event)
            case Returned():
                self._return(event)
            case Extended():
                self._extend(event)
            case Ended():
                self._ended(event)
                self._health.ended(event)
                self._beside.ended(event.key, event.generation)
            case Granted():
                self._grant(event)
                self._health.granted(event)
            case Taken():
                self._take(event)
            case Freed():
                self._health.freed(event)
                self._model.epochs[event.shard] = _NOBODY
            case Left():
                self._leave(event)
                self._health.left(event)
            case TakenUp():
                self._take_up(event)
            case Scoped():
                self._health.scoped(event)
            case Deployed():
                self._deploy(event)
                self._health.deployed(event)
            case Called():
                self._callers.called(event)
            case Answered():
                self._callers.answered(event)
                self._answer(event)
            case Fault():
                self._fault(event)
                self._weather.broken(event)
                self._health.broken(event)
                self._beside.broken(event)
            case Finished():
                self._finished(event)

    def finish(self) -> None:
        """
        Check what can be checked only at the end of the history.
        """
        for at, what in self._callers.judge():
            self._add("answer", at, what)
        for start, at, what in self._begun_late:
            if self._weather.has_calm(start, at):
                self._add("late", at, what)
        if self._end is None:
            self._add("lost", 0, "the history has no end")
            return
        for job in self._model.jobs.values():
            if job.state == "running":
                self._lose(job, self._end)

    def _finished(self, event: Finished) -> None:
        """
        Judge the pending jobs when the day has finished, before the nodes stop.
        """
        # While the nodes stop, the last one may own all shards, and may then claim jobs that waited for its handler.
        self._end = event
        for job in self._model.jobs.values():
            is_due = job.state == "pending" and job.pause is None
            is_overdue = is_due and job.due_at < event.store_ms - _OVERDUE_MS
            # If a series is behind, its next due time has already passed.
            since, _ = self._waiting.get(job.key, (0, 0))
            is_overdue = is_overdue and event.at - since > _OVERDUE_MS * 1_000_000
            if is_overdue and (not job.lacks_handler or self._health.can_run(job.handler)):
                self._lose(job, event)

    def _lose(self, job: Job, end: Finished) -> None:
        self._add("lost", end.at, f"{_name(job)} is {job.state.value}, due at {job.due_at}")

    # ---- the store -------------------------------------------------------------------------------------------------

    def _grant(self, event: Granted) -> None:
        model = self._model
        if event.epoch in self._granted:
            self._add("repeated", event.at, f"epoch {event.epoch} was granted twice, now of shard {event.shard}")
        self._granted.add(event.epoch)
        if event.epoch <= self._epochs[event.shard]:
            older = self._epochs[event.shard]
            self._add("zombie", event.at, f"shard {event.shard} got epoch {event.epoch} after {older}")
        self._epochs[event.shard] = model.epochs[event.shard] = event.epoch
        rescued = model.rescue(event.shard)
        if rescued != event.rescued:
            self._add("lost", event.at, f"shard {event.shard}: {event.rescued} of {rescued} running jobs were rescued")
        for job in model.jobs.values():
            if model.shard_of(job.key) == event.shard:
                self._await(job, event.at)

    def _take(self, event: Taken) -> None:
        if self._model.epochs[event.shard] != event.epoch:
            text = f"{event.machine} took notes of shard {event.shard} under epoch {event.epoch}"
            self._add("zombie", event.at, text)

    def _leave(self, event: Left) -> None:
        model = self._model
        for job in model.jobs.values():
            if job.state == "running" and model.shard_of(job.key) == event.shard:
                model.away[job.key] = event.tail
        model.epochs[event.tail] = self._epochs[event.tail] = model.epochs[event.shard]

    def _take_up(self, event: TakenUp) -> None:
        model = self._model
        if model.epochs[event.shard] != event.epoch:
            self._add("zombie", event.at, f"{event.machine} took up jobs under epoch {event.epoch}")
        for key in event.keys:
            job = model.jobs[key]
            # once it has claimed the job, the node sees the rule
            is_for_it = job.handler in self._handlers[event.machine] or job.handler in RULES
            if not job.lacks_handler or not is_for_it:
                self._add("handler", event.at, f"{event.machine} took up {_name(job)}, which is not for it")
            if self._health.paused_since(job) is not None:
                self._add("scope", event.at, f"{event.machine} took up {_name(job)}, which is paused")
            self._health.passed_on(job, model.shard_of(key), event.at)
            model.jobs[key] = replace(job, lacks_handler=False)
            model.away[key] = event.shard

    def _commit(self, event: Committed) -> None:
        event = replace(event, write=_dated(event.write, event.store_ms))
        write, answer = event.write, event.answer
        assert not isinstance(write, Declare | Keep | Claim), "a history has only writes to single jobs"
        key = key_of(write)
        model = self._model
        before, shard = model.jobs.get(key), model.shard_of(key)
        outcome, job = model.expect(write)
        if answer.outcome != outcome:
            is_zombie = outcome is Outcome.NOT_OWNER and answer.outcome in (Outcome.BEGUN, Outcome.SETTLED)
            text = f"{type(write).__name__} of {key!r} was answered {answer.outcome}, and not {outcome}"
            self._add("zombie" if is_zombie else "answer", event.at, text)
            job = _as_told(write, answer, before)
        if job is not None and job.generation == NEW:
            job = self._named(job, answer, event)
        if job is not None and isinstance(write, SetPause) and answer.job is not None:
            job = replace(job, pause=answer.job.pause)
        if before is not None and answer.outcome is Outcome.STOPPING:
            self._stopped[key] = (before.generation, before.due_at, before.attempt)
        if job is None:
            model.jobs.pop(key, None)
        else:
            model.jobs[key] = job
        if job != before and (job is None or job.state != "running"):
            model.away.pop(key, None)
        if isinstance(write, SetAside) and before is not None and job is not before:
            self._health.passed_on(before, shard, event.at)
        elif job is not before:
            self._judge_late(before, event, shard)
            self._waiting.pop(key, None)
            if job is not None:
                self._await(job, event.at)
        self._note(event, before)
        is_of_former_clock = self._callers.asked_at(event) < self._weather.noticed
        self._health.committed(event, shard, is_of_former_clock=is_of_former_clock)

    def _named(self, job: Job, answer: Answer, event: Committed) -> Job:
        told = answer.job
        if told is not None and told.generation in self._generations:
            self._add("repeated", event.at, f"{_name(job)} got generation {told.generation}, which was given before")
            return job
        if told is None:
            self._add("answer", event.at, f"{_name(job)} got no generation of its own: {told}")
            return job
        self._generations.add(told.generation)
        self._lives[job.key, told.generation] = decode_payload(job.payload)
        since = told.first_set_at if job.first_set_at == NEW else job.first_set_at
        return replace(job, generation=told.generation, first_set_at=since, sent_as=told.sent_as)

    def _note(self, event: Committed, before: Job | None) -> None:
        write, outcome = event.write, event.answer.outcome
        if outcome is Outcome.RESUMED:
            self._paused.pop(key_of(write), None)
        self._callers.committed(event, key_of(write))
        if what := self._series.changed(event, before):
            self._add("series", event.at, what)
        if what := self._callers.due_too_soon(event):
            self._add("short", event.at, what)
        if isinstance(write, Begin) and outcome is Outcome.BEGUN:
            job = write.job
            counted = (event.machine, job.key, job.generation, job.attempt + 1, job.due_at)
            self._counted[counted] += 1
            self._counted_at[counted] = event.at
            if before is not None and before.handler not in self._handlers[event.machine]:
                self._add("handler", event.at, f"{_name(job)} was begun on {event.machine}")
        elif isinstance(write, Settle) and outcome is Outcome.SETTLED and before is not None:
            self._settle(event, write, before)
            self._beside.ended(before.key, before.generation)

    def _settle(self, event: Committed, write: Settle, before: Job) -> None:
        firing = (event.machine, before.key, before.generation, before.attempt)
        self._settled.add(firing)
        if write.how is Settled.DEAD and before.recurrence is not None and not self._was_cut_off(before, write.attempt):
            self._add("series", event.at, f"the series of {_name(before)} has died: {write.error}")
        if write.how is not Settled.DONE or must_be_continued(write.recurrence):
            return
        has_ended = must_be_continued(before.recurrence)  # ended on a node that could not continue the series
        if firing not in self._fired and not has_ended and not may_be_left_out(before, event.store_ms):
            self._add("ended", event.at, f"{_name(before)} is done and never ran")
        if before.recurrence is None:
            return
        if wrong := self._series.judge(event, before, write):
            self._add("series", event.at, f"{before.key!r} goes on at {write.due_at}: {wrong}")

    def _was_cut_off(self, job: Job, attempts: int) -> bool:
        """
        Return True if *job* has used up its attempts, and no attempt could end normally.

        An attempt is cut off if its process ends, or loses the job's shard to another process.
        """

        def machines(firings: Iterable[tuple[Any, ...]], attempt: int) -> set[str]:
            return {machine for machine, *which in firings if which[:3] == [job.key, job.generation, attempt]}

        def is_cut_off(attempt: int) -> bool:
            successors = machines(self._counted_at, attempt + 1)
            unsettled = machines(self._fired - self._settled, attempt)
            return any(machine in self._gone or successors - {machine} for machine in unsettled)

        return attempts >= job.retry.attempts and all(map(is_cut_off, range(1, attempts + 1)))

    # ---- the engine ------------------------------------------------------------------------------------------------

    def _fire(self, event: Fired) -> None:
        name = f"{event.key}/{event.generation}/{event.attempt} on {event.machine}"
        counted = (event.machine, event.key, event.generation, event.attempt, event.due_at)
        if self._counted[counted] <= 0:
            self._add("twice", event.at, f"{name} began without an attempt that was counted for it")
        self._counted[counted] -= 1
        # If a job waited for a thread while the clock was set back, it is late and not early.
        is_early = event.store_ms < event.due_at - _EARLY_MS
        if is_early and not self._weather.had_come(event.due_at, self._counted_at.get(counted, event.at)):
            self._add("early", event.at, f"{name} began {event.due_at - event.store_ms} ms before its instant")
        if (former := self._beside.begun(event)) is not None:
            self._add("beside", event.at, f"{name} began while it ran on {former}, which was well")
        if event.payload != self._lives.get((event.key, event.generation)):
            self._add("payload", event.at, f"{name} got {event.payload}")
        job = self._model.jobs.get(event.key)
        if job is not None and self._health.is_ignoring(job, event.machine, event.at):
            self._add("scope", event.at, f"{name} began, which is paused")
        ended, answered_at = self._final.get(event.key, (0, 0))
        is_paused = self._paused.get(event.key) == event.generation
        if is_paused or (event.generation <= ended and event.at > answered_at):
            self._add("overtaken", event.at, f"{name} began after it was answered that it would not")
        stopped = self._stopped.get(event.key, (0, 0, 0))
        if event.generation == stopped[0] and (event.due_at, event.attempt) != stopped[1:]:
            self._add("overtaken", event.at, f"{name} began after attempt {stopped[2]} was asked to stop")
        self._fired.add((event.machine, event.key, event.generation, event.attempt))

    def _return(self, event: Returned) -> None:
        job = self._model.jobs.get(event.key)
        if job is not None and (wrong := self._series.returned(event, job)):
            self._add("series", event.at, wrong)

    def _extend(self, event: Extended) -> None:
        job = self._model.jobs.get(event.key)
        if (
            job is None
            or job.generation != event.generation
            or (job.state == "running" and job.attempt == event.attempt)
        ):
            return
        if self._health.is_deaf(event.machine, self._model.shard_of(event.key), event.at):
            text = f"{event.machine} promised time for {_name(job)}/{event.attempt}, which it has lost"
            self._add("zombie", event.at, text)

    def _answer(self, event: Answered) -> None:
        """
        Record the generation that has ended according to an answer. It must not begin any more.
        """
        key = self._callers.key_of(event.call)
        if event.outcome == "unknown":
            self._health.unheard(key)
        job = self._model.jobs.get(key)
        if event.outcome == "paused" and job is not None and job.pause and job.state == "pending":
            self._paused[key] = event.generation
        if event.outcome in ("cancelled", "moved", "replaced"):
            ended = event.generation - (event.outcome != "cancelled")
            if ended > self._final.get(key, (0, 0))[0]:
                self._final[key] = (ended, event.at)

    def _ended(self, event: Ended) -> None:
        firing = (event.machine, event.key, event.generation, event.attempt)
        if event.kind != "SettleRefused" and firing not in self._settled:
            self._add("ended", event.at, f"{event.kind} was reported for {firing}, and is not written")

    def _await(self, job: Job, at: int) -> None:
        if job.state == "pending" and job.pause is None:
            self._waiting[job.key] = (at, job.due_at)

    def _judge_late(self, before: Job | None, event: Committed, shard: int) -> None:
        since, due_at = self._waiting.get(key_of(event.write), (event.at, event.store_ms))
        # After a clock step, a job may have become due by the step itself.
        start = max(since, event.at - (event.store_ms - due_at) * 1_000_000, self._weather.stepped)
        if before is not None:
            may_wait = self._health.paused_since(before) is not None or self._health.still_runs(before, shard)
            start = (
                event.at if may_wait else max(start, self._health.resumed(before), self._series.busy_until(before.key))
            )
        if event.at - start > LATE_NS and before is not None and before.handler not in _SCARCE:
            self._begun_late.append((start, event.at, f"{_name(before)} waited {(event.at - start) / 1e9:.0f} s"))
        if before is not None and before.state == "pending" and before.handler != QUEUE:
            for kind, what in self._health.judge(before, start, event, shard):
                self._add(kind, event.at, what)

    def _look_back(self, at: int) -> None:
        for job in (job for job in self._model.jobs.values() if job.state == "running"):
            for kind, what in self._health.overlooked(job, self._model.shard_of(job.key), at):
                self._add(kind, at, what)

    def _deploy(self, event: Deployed) -> None:
        self._handlers[event.machine] = event.handlers + event.fading
        node = event.machine.partition(".")[0]
        self._gone.add(self._machines.get(node, ""))
        self._machines[node] = event.machine

    def _fault(self, event: Fault) -> None:
        if "failed" in event.what or "orderly" in event.what:
            self._add("lost", event.at, event.what)
        what, _, node = event.what.partition(" ")
        if what in {"kill", "stop"} and not event.is_over:
            self._gone.add(self._machines.get(node, ""))
        if event.what == "emptied":  # the earlier jobs are lost, and later events are judged as usual
            for gone in (self._model.jobs, self._model.away, self._waiting, self._paused, self._stopped):
                gone.clear()

    def _add(self, kind: str, at: int, what: str) -> None:
        self.violations.append(Violation(kind, at, what))


def _dated(write: Write, store_ms: int) -> Write:
    """
    Return *write* with its delays counted from *store_ms*, the time of the commit.
    """
    if isinstance(write, Set | Move | Replay) and write.counted_from is not None:
        later = store_ms - write.counted_from
        if not isinstance(write, Set):
            return replace(write, due_at=write.due_at + later)
        write = replace(write, job=_later(write.job, later))
    if isinstance(write, Set) and not write.job.first_set_at:
        return replace(write, job=replace(write.job, first_set_at=store_ms))
    return write


def _later(job: Job, later: int) -> Job:
    expires_at = None if job.expires_at is None else job.expires_at + later
    text = job.recurrence
    if text is not None:
        rule = json.loads(text)
        rule["anchor_at"] += later
        text = json.dumps(rule, sort_keys=True, separators=(",", ":"))
    return replace(job, due_at=job.due_at + later, expires_at=expires_at, recurrence=text)


def _name(job: Job) -> str:
    return f"{job.key}/{job.generation}"


def _as_told(write: Write, answer: Answer, before: Job | None) -> Job | None:
    """
    Return the job that the store's answer shows. Later events are checked against this job.
    """
    if answer.job is not None:
        return None if answer.outcome is Outcome.CANCELLED else answer.job
    if isinstance(write, Settle) and answer.outcome is Outcome.SETTLED:
        return None
    return before
