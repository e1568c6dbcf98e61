"""
A caller that continuously sets, replaces, moves and cancels jobs, and a check of when these jobs start.

The caller may switch to another URL at any time. The payload of each job is the serial number of its set request. For
each start the handler writes a line `SERIAL STARTED DUE`.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from tickwheel.jobs.model import Answer, Outcome
from tickwheel.scheduler import RetryPolicy, Scheduler, StoreError

__all__ = ["Caller", "Counts", "Life", "Start", "judge"]

PATIENCE_S: Final = 60.0
BETWEEN_S: Final = 0.02
AGAIN_S: Final = 0.05
PATIENT: Final = RetryPolicy(attempts=1000)
"""A retry policy with many attempts, because a failover costs a running job an attempt."""
RECENT: Final = 60


class Start(NamedTuple):
    serial: int
    at: float
    due: float


@dataclass(slots=True)
class Life:
    """
    One set request that was acknowledged, and the answers to later calls for the same job.

    Attributes:
        step: The step during which the job was set.
        serial: The number of the set request.
        generation: The generation in the last answer.
        asked_at: Time at which the last successful set or move of the job began.
        answered_at: Time of the answer to that call.
        due: The due time in that answer; the job may not start earlier.
        ended_at: Time at which the job's cancel or replacement was answered; None before that.
        is_doubtful: True if a failed call for the job may have taken effect.
    """

    step: str
    key: str
    serial: int
    generation: int
    asked_at: float
    answered_at: float
    due: float
    ended_at: float | None = None
    is_doubtful: bool = False

    def is_pending_at(self, now: float) -> bool:
        """
        Return True if the job still waits for its due time at *now*, according to the last answer about it.
        """
        return self.due > now and self.ended_at is None and not self.is_doubtful


@dataclass(slots=True)
class Counts:
    """
    The counts for one step of docs/scale.md.

    Attributes:
        acknowledged: Number of calls that changed something and were answered.
        lost: Number of jobs that should have started and have not.
        overtaken: Number of jobs that started after the answer to their cancel, replacement or move.
        early: Number of starts before the due time.
        pause_s: The longest time between two answers.
        silence_s: Longest delay of a start.
    """

    acknowledged: int = 0
    lost: int = 0
    overtaken: int = 0
    early: int = 0
    pause_s: float = 0.0
    silence_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """
        True if some calls were acknowledged and no fault was found.
        """
        return self.acknowledged > 0 and not (self.lost or self.overtaken or self.early)


class Caller:
    def __init__(self, seed: int) -> None:
        self.lives: list[Life] = []
        self.acknowledged: Counter[str] = Counter()
        self.pauses: dict[str, float] = {}
        self._dice = random.Random(seed)
        self._url = ""
        self._step = ""
        self._client: Scheduler | None = None
        self._serial = 0
        self._answered_at: float | None = None
        self._wanted = threading.Event()
        self._is_over = threading.Event()
        self._failure: StoreError | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run)

    def use(self, url: str) -> None:
        self._url = url
        self._wanted.clear()  # a call to the store may have set the event since
        if self._thread.ident is None:
            self._thread.start()
        is_answered = self._wanted.wait(PATIENCE_S)
        self._check()
        if not is_answered:
            message = f"{url}: no call to it is answered: {self._failure!r}"
            raise TimeoutError(message)

    def begin(self, step: str) -> None:
        self._step = step

    def stop(self) -> None:
        self._is_over.set()
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - raised by whichever method is called next
            self._error = error
        finally:
            self._wanted.set()
            self._close()

    def _call(self) -> None:
        used = ""
        while not self._is_over.wait(BETWEEN_S):
            if used != self._url:
                used = self._open()
            now, before = time.time(), self.acknowledged.total()
            recent = [each for each in self.lives[-RECENT:] if each.is_pending_at(now)]
            draw = self._dice.random()
            if draw < 0.55 or not recent:
                self._set(f"job-{self._serial}")
            else:
                life = self._dice.choice(recent)
                with suppress(StoreError):
                    (self._replace if draw < 0.7 else self._move if draw < 0.85 else self._cancel)(life)
            if used == self._url and self.acknowledged.total() > before:
                self._wanted.set()

    def _open(self) -> str:
        self._close()
        url = self._url
        while not self._is_over.is_set():
            try:
                self._client = Scheduler(url)
                self._client.stats()
                break
            except StoreError as error:
                self._failure = error
            self._is_over.wait(AGAIN_S)
        return url

    def _close(self) -> None:
        if self._client is not None:
            self._client.stop()
            self._client = None

    def _set(self, key: str) -> None:
        """
        Set a new job, and repeat the call until there is an answer.
        """
        self._serial += 1
        serial, step = self._serial, self._step
        delay = self._dice.uniform(0.0, 3.0) if self._dice.random() < 0.8 else self._dice.uniform(3.0, 15.0)
        while not self._is_over.is_set():
            asked_at = time.time()
            try:
                answer = self._open_client.set(key, delay=delay, handler="work", payload=serial, retry=PATIENT)
            except StoreError as error:
                self._failure = error
                self._is_over.wait(AGAIN_S)
                continue
            self._answered()
            self._add(step, key, serial, asked_at, answer)
            return

    def _replace(self, life: Life) -> None:
        """
        Replace the job, if it still has the generation in *life*.
        """
        self._serial += 1
        serial, step, asked_at = self._serial, self._step, time.time()
        answer = self._ask(
            life,
            lambda client: client.set(
                life.key,
                delay=self._dice.uniform(0.5, 4.0),
                handler="work",
                payload=serial,
                retry=PATIENT,
                if_generation=life.generation,
            ),
        )
        if answer.outcome is Outcome.REPLACED:
            life.ended_at = time.time()
            self._add(step, life.key, serial, asked_at, answer)

    def _move(self, life: Life) -> None:
        asked_at = time.time()
        answer = self._ask(life, lambda client: client.move(life.key, delay=self._dice.uniform(1.0, 5.0)))
        if answer.outcome is Outcome.MOVED and answer.job is not None:
            life.asked_at, life.answered_at = asked_at, time.time()
            life.due, life.generation = answer.job.due_at / 1000, answer.job.generation
            self.acknowledged[self._step] += 1

    def _cancel(self, life: Life) -> None:
        if self._ask(life, lambda client: client.cancel(life.key)).outcome is Outcome.CANCELLED:
            life.ended_at = time.time()
            self.acknowledged[self._step] += 1

    def _ask(self, life: Life, call: Callable[[Scheduler], Answer]) -> Answer:
        try:
            answer = call(self._open_client)
        except StoreError as error:
            life.is_doubtful = life.is_doubtful or error.is_unknown
            raise
        self._answered()
        return answer

    @property
    def _open_client(self) -> Scheduler:
        assert self._client is not None
        return self._client

    def _answered(self) -> None:
        now = time.monotonic()
        if self._answered_at is not None:
            self.pauses[self._step] = max(self.pauses.get(self._step, 0.0), now - self._answered_at)
        self._answered_at = now

    def _add(self, step: str, key: str, serial: int, asked_at: float, answer: Answer) -> None:
        assert answer.job is not None
        job = answer.job
        self.lives.append(Life(step, key, serial, job.generation, asked_at, time.time(), job.due_at / 1000))
        self.acknowledged[step] += 1


def judge(steps: Iterable[str], caller: Caller, starts: Iterable[Start]) -> dict[str, Counts]:
    """
    For each of *steps*, count the faults of the jobs that were set during the step.
    """
    counts = {step: Counts(caller.acknowledged[step], pause_s=caller.pauses.get(step, 0.0)) for step in steps}
    found: dict[int, list[Start]] = {}
    for start in starts:
        found.setdefault(start.serial, []).append(start)
    for life in caller.lives:
        count, own = counts[life.step], found.get(life.serial, [])
        count.early += sum(start.at < start.due for start in own)
        count.overtaken += any(_is_overtaken(life, start) for start in own)
        if life.ended_at is not None or life.is_doubtful:
            continue
        final = [start.at for start in own if start.at >= life.asked_at]
        if final:
            count.silence_s = max(count.silence_s, min(final) - max(life.due, life.answered_at))
        else:
            count.lost += 1
    return counts


def _is_overtaken(life: Life, start: Start) -> bool:
    if life.ended_at is not None:
        return start.at > life.ended_at
    return not life.is_doubtful and life.answered_at < start.at < life.due
