"""
Random writes on a store, compared with a model after each batch.

    report = run_store_machine(make_store, seed=7, writes=20_000)

At random points the store is released and acquired again, by another store object if *reopen* is given. After that,
jobs that were running must be pending. The first answer or job that differs ends the run with a `StoreDivergenceError`,
whose text has the seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tickwheel.jobs.model import (
    Adopt,
    Answer,
    AttemptState,
    AttemptStatus,
    Begin,
    Cancel,
    Job,
    JobQuery,
    JobWrite,
    Move,
    Outcome,
    Redate,
    Replay,
    Resume,
    Set,
    SetAside,
    SetMode,
    SetPause,
    Settle,
    Settled,
    State,
    key_of,
)
from tickwheel.stores.contract import Store
from tickwheel.testing._store_model import LENGTH, NEW, StoreModel

__all__ = ["StoreDivergenceError", "StoreReport", "run_store_machine"]

_START = 1_700_000_000_000
_KEYS = [f"key {i}" for i in range(12)]
_OWNERS = ("one", "two", "three")


class StoreDivergenceError(AssertionError):
    """
    A store differed from the model.
    """


@dataclass(slots=True)
class StoreReport:
    """
    Result of a run without a divergence: numbers of writes per kind and answer, and of owner changes (*takeovers*).
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    takeovers: int = 0


class _Machine:
    def __init__(self, store: Store, rng: random.Random) -> None:
        self.store, self.rng = store, rng
        self.model = StoreModel(store.shard_of)
        self.staged: list[Job] = []
        self.generations: set[int] = set()
        self.owner = ""
        self.report = StoreReport()

    def own(self) -> None:
        self.owner = self.rng.choice(_OWNERS)
        leases = self.store.acquire(self.owner)
        same(sum(lease.rescued for lease in leases), self.model.rescue(), "how many were rescued")
        for lease in leases:
            later(lease.epoch, self.model.epochs.get(lease.shard, 0), f"the epoch of shard {lease.shard}")
            self.model.epochs[lease.shard] = lease.epoch
        self.report.takeovers += 1

    def step(self) -> int:
        writes = [self.draw() for _ in range(self.rng.choice((1, 1, 2, 5, 30)))]
        for write, answer in zip(writes, self.store.apply(writes), strict=True):
            self.compare(write, answer)
        if self.rng.random() < 0.2:
            self.take_up()
        return len(writes)

    def take_up(self) -> None:
        lacking = {key for key, job in self.model.jobs.items() if job.lacks_handler}
        same(sum(each.count for each in self.store.aside()), len(lacking), "what was set aside")
        shard, partitions = self.rng.choice(list(self.model.epochs)), self.store.abilities.partitions
        lacking = {key for key in lacking if (self.store.shard_of(key) - shard) % partitions == 0}
        skills = [(target, None) for target in {self.model.jobs[key].target for key in lacking}]
        taken = self.store.take_up(shard, self.model.epochs[shard], skills, 100)
        same({job.key for job in taken}, lacking, "what was taken up")
        for job in taken:
            same(job, replace(self.model.jobs[job.key], lacks_handler=False), "what was taken up")
            self.model.jobs[job.key] = job
            self.model.away[job.key] = shard

    def compare(self, write: JobWrite, answer: Answer) -> None:
        outcome, job = self.model.expect(write)
        same(answer.outcome, outcome, f"the answer to {write}")
        key = key_of(write)
        if job != self.model.jobs.get(key) and (job is None or job.state is not State.RUNNING):
            self.model.away.pop(key, None)
        if job is None:
            self.model.jobs.pop(key, None)
        else:
            if job.generation == NEW:
                job = self.name(job, answer, write.job.generation if isinstance(write, Adopt) else 0)
            job = timed(job, self.model.jobs.get(key), answer.job)
            self.model.jobs[key] = job
            if answer.job is not None and outcome is not Outcome.CANCELLED:
                same(answer.job, job, f"the job in the answer to {write}")
            self.staged.append(job)
            del self.staged[:-40]
        self.report.outcomes[type(write).__name__, outcome] += 1

    def name(self, job: Job, answer: Answer, floor: int) -> Job:
        if answer.job is None:
            message = f"no job in {answer}, which should have {job}"
            raise StoreDivergenceError(message)
        generation = answer.job.generation
        same(self.generations & {generation}, set(), f"{generation} is a new generation")
        later(generation, floor, f"the generation of {answer.job.key!r}")
        self.generations.add(generation)
        since = answer.job.first_set_at if job.first_set_at == NEW else job.first_set_at
        return replace(job, generation=generation, first_set_at=since)

    def check(self) -> None:
        jobs = self.model.jobs
        for key in _KEYS:
            same(self.store.get(key), jobs.get(key), f"the job of {key!r}")
        by_key = sorted(jobs.values(), key=lambda job: job.key)
        same(list(self.store.page(JobQuery(limit=100)).jobs), by_key, "the list")
        pending = [job for job in by_key if job.state is State.PENDING]
        pending.sort(key=lambda job: (job.due_at, job.generation))
        pending = [job for job in pending if not job.lacks_handler and job.pause is None]
        due = [job for shard in self.model.epochs for job in self.store.due(shard, 2**62, None, 100)]
        same(sorted(due, key=lambda job: (job.due_at, job.generation)), pending, "what is due")
        paused = [job for job in by_key if job.is_paused]
        same(self.store.count_paused(), len(paused), "how many are paused")
        states = Counter(job.state.value for job in by_key)
        same(self.store.count(), {state.value: states[state.value] for state in State}, "the counts")

    def draw(self) -> JobWrite:  # noqa: C901, PLR0911 - one branch for each kind of write
        rng, key = self.rng, self.rng.choice(_KEYS)
        kind = rng.choices(
            (Set, Move, Cancel, Replay, Begin, Settle, Redate, Adopt, SetAside, SetPause, Resume),
            (4, 2, 1, 2, 6, 6, 2, 1, 2, 2, 2),
        )[0]
        if kind is Set:
            return self.draw_set(key)
        if kind is Cancel:
            return Cancel(key, self.draw_condition(key), self.draw_status(key), stops=rng.random() < 0.5)
        if kind is Move:
            return Move(key, self.draw_instant(), self.draw_condition(key), over=self.draw_status(key))
        if kind is SetPause:
            return SetPause(key, "me", rng.choice(("", "why")), self.draw_condition(key), self.draw_status(key))
        if kind is Resume:
            return Resume(key, self.draw_condition(key))
        if kind is Replay:
            return Replay(key, self.draw_instant(), self.draw_condition(key))
        if kind is Adopt:
            return self.draw_adopt(key)
        wanted = State.RUNNING if kind is Settle else State.PENDING
        likely = [job for job in self.model.jobs.values() if job.state is wanted]
        job = rng.choice(self.staged if self.staged and rng.random() < 0.2 else likely or [Job(key, 1, 0)])
        epoch = self.model.epoch_of(job.key) - (rng.random() < 0.05)
        if kind is Begin:
            return Begin(job, epoch)
        if kind is SetAside:
            return SetAside(job, epoch)
        if kind is Redate:
            return Redate(job, epoch, self.draw_instant(), job.recurrence and "every 7 s")
        how = rng.choice((Settled.DONE, Settled.DONE, Settled.AGAIN, Settled.DEAD))
        due_at = self.draw_instant() if rng.random() < 0.4 else None
        rule = job.recurrence and rng.choice((None, "every 5 s, once more"))
        return Settle(job, epoch, how, rng.randrange(5), due_at, rng.choice((None, "it broke")), rule)

    def draw_set(self, key: str) -> Set:
        rng, due_at = self.rng, self.draw_instant()
        job = Job(
            key,
            0,
            due_at,
            payload=rng.randbytes(rng.choice((0, 3, 5_000))),
            handler=rng.choice(("a", "b")),
            expires_at=rng.choice((None, due_at + 40)),
            recurrence=rng.choice((None, None, "every 5 s", f"every 5 s{LENGTH}30")),
            first_set_at=_START + rng.randrange(100),
        )
        max_wait_ms = rng.choice((None, None, 50))
        mode, condition, status = rng.choice(list(SetMode)), self.draw_condition(key), self.draw_status(key)
        keeps = rng.choice((False, False, True))
        former = self.model.jobs.get(key)
        if_due_at = rng.choice((None, None, former.due_at if former else due_at, due_at))
        return Set(job, mode, max_wait_ms, condition, over=status, keeps_payload=keeps, if_due_at=if_due_at)

    def draw_status(self, key: str) -> AttemptStatus | None:
        job = self.model.jobs.get(key)
        if job is None or self.rng.random() < 0.4:
            return None
        attempt = job.attempt + (self.rng.random() < 0.1)
        return AttemptStatus(job.generation, job.due_at, attempt, self.rng.choice(list(AttemptState)))

    def draw_adopt(self, key: str) -> Adopt:
        state = self.rng.choice((State.PENDING, State.DEAD))
        job = replace(self.draw_set(key).job, generation=self.rng.randrange(2_000), attempt=2, error="e", state=state)
        return Adopt(job, self.draw_condition(key) or 0)

    def draw_condition(self, key: str) -> int | None:
        job = self.model.jobs.get(key)
        return self.rng.choice((None, None, None, 0, job.generation if job else 7))

    def draw_instant(self) -> int:
        return _START + self.rng.choice((0, 1, 60_000, 60_001, self.rng.randrange(10**7)))


def run_store_machine(
    make_store: Callable[[], Store], seed: int, writes: int, reopen: Callable[[Store], Store] | None = None
) -> StoreReport:
    """
    Run random *writes* on an empty store, and compare all observable results with the model.

    *make_store* returns an empty store that is not open. *reopen* takes a closed store, and returns another store
    object on the same data. This object is not open, and may have more shards. Pass None if the data ends with the
    store object. The *seed* repeats the run. A difference raises a StoreDivergenceError.
    """
    rng = random.Random(seed)
    machine = _Machine(make_store(), rng)
    machine.store.open()
    done = 0
    try:
        machine.own()
        while done < writes:
            done += machine.step()
            if rng.random() < 0.02:
                if reopen is None:
                    machine.store.release(machine.owner)
                else:
                    machine.store.close()
                    machine.store = reopen(machine.store)
                    machine.store.open()
                    machine.model.grow(machine.store.shard_of)
                machine.own()
            machine.check()
    except StoreDivergenceError as error:
        message = f"after {done} writes with seed {seed}: {error}"
        raise StoreDivergenceError(message) from None
    finally:
        machine.store.close()
    return machine.report


def timed(job: Job, former: Job | None, stored: Job | None) -> Job:
    """
    Return *job* with the times that only the store knows, taken from *stored*.
    """
    if stored is None:
        return job
    if job.pause is not None and job.pause.at == NEW and stored.pause is not None:
        job = replace(job, pause=replace(job.pause, at=stored.pause.at))
    if job.expires_at == NEW and stored.expires_at is not None:
        if former is not None and former.expires_at is not None:
            same(min(stored.expires_at, former.expires_at), stored.expires_at, f"when {stored} expires at the latest")
        job = replace(job, expires_at=stored.expires_at)
    return job


def later(found: int, former: int, what: str) -> None:
    if found <= former:
        message = f"{what}: the store says {found!r} after {former!r}"
        raise StoreDivergenceError(message)


def same(found: object, expected: object, what: str) -> None:
    if found != expected:
        message = f"{what}: the store says {found!r}, the model {expected!r}"
        raise StoreDivergenceError(message)
