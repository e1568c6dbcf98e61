from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tickwheel.futures import wait_for
from tickwheel.jobs.errors import StoreError
from tickwheel.loops import new_pool
from tickwheel.stores._deadlines import call_s
from tickwheel.stores.contract import Lease
from tickwheel.stores.redis._store import RedisStore
from tickwheel.threads import Lock

__all__ = ["PartitionedLeases", "shard_of_all"]

_TRUSTED: Final = 0.5
"""Fraction of a lease after which the leases in a silent partition count as lost."""
_DRIFT: Final = 1e-4
"""Maximum drift of this machine's clock relative to a server's."""

_Leased: TypeAlias = tuple[int, list[Lease]]
"""The clock of a partition's master, and the node's leases in that partition."""


@dataclass(slots=True)
class _Held:
    leases: list[Lease] = field(default_factory=list)
    since: float = 0.0
    is_lost: bool = False


class PartitionedLeases:
    """
    Takes, renews and releases leases in all partitions concurrently, on its own threads. Thread-safe.

    *is_owner* is True from the first acquire to the release. *silent* has the partitions whose last request failed.
    """

    def __init__(self, partitions: Sequence[RedisStore], url: str, lease_ms: int) -> None:
        self._partitions, self._url, self._lease_ms = partitions, url, lease_ms
        self._count = len(partitions)
        self._pool = new_pool(2 * self._count, "tickwheel-partition")
        self._patience_s = call_s(lease_ms / 1000)
        """Time limit for a silent partition during a renewal. The answers of all other partitions wait until then."""
        self._asked: dict[int, Future[_Leased]] = {}
        self._held = [_Held() for _ in partitions]
        self._lock = Lock()
        self._read_at: tuple[int, float] | None = None
        """The clock of the first partition's master, and the monotonic time at which it was read."""
        self.is_owner = False
        self.silent: frozenset[int] = frozenset()

    def release(self, owner: str) -> None:
        self.is_owner, self.silent = False, frozenset()
        errors: list[StoreError] = []
        for partition in self._partitions:
            try:
                partition.release(owner)
            except StoreError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def tell(self, call: Callable[[RedisStore], None]) -> None:
        number = next((each for each in range(self._count) if each not in self.silent), 0)
        try:
            told = self._pool.submit(call, self._partitions[number])
        except RuntimeError as error:  # a heartbeat while the node stops
            what = f"{self._url} is closed"
            raise StoreError(what, "open it before use") from error
        try:
            told.result(self._patience_s)
        except TimeoutError as error:
            raise self._silence(number) from error

    def close(self) -> None:
        self._pool.shutdown(wait=False)

    def ask(self, owner: str, *, may_take: bool) -> list[Lease]:
        """
        Renew the leases in all partitions concurrently; if *may_take* is True, also take free shards.

        If a partition does not answer, the node continues to fire its jobs, and keeps the leases in that partition for
        half of their length. A permanent error is raised. Any other error is raised only if no partition answers or
        this node owns nothing yet.
        """
        with self._lock:
            began = time.monotonic()
            answers = self._ask_each(
                lambda number: self._lease_in(number, owner, may_take=may_take),
                self._patience_s if self.is_owner else None,
            )
            self.silent = frozenset(number for number, each in enumerate(answers) if isinstance(each, StoreError))
            errors = [answer for answer in answers if isinstance(answer, StoreError)]
            for error in errors:
                if len(errors) == self._count or not self.is_owner or not error.is_transient:
                    raise error
            now = self._clock(answers[0], began)
            leases = [
                replace(lease, shard=shard_of_all(number, lease.shard, self._count), granted_at=now, until=now + left)
                for number, answer in enumerate(answers)
                for lease, left in self._kept(number, answer, began)
            ]
            self.is_owner = self.is_owner or may_take
        return sorted(leases, key=lambda lease: lease.shard)

    def _lease_in(self, number: int, owner: str, *, may_take: bool) -> _Leased:
        partition, held = self._partitions[number], self._held[number]
        if held.is_lost:
            partition.release(owner)  # the state of these jobs is unknown: they are recovered under new epochs
            held.is_lost = False
        return partition.leased(owner, may_take=may_take)

    def _ask_each(self, ask: Callable[[int], _Leased], patience_s: float | None) -> list[_Leased | StoreError]:
        silent = {number for number, future in self._asked.items() if not future.done()}
        self._asked |= {number: self._pool.submit(ask, number) for number in range(self._count) if number not in silent}
        deadline = math.inf if patience_s is None else time.monotonic() + patience_s
        for number in self._asked.keys() - silent:
            left_s = deadline - time.monotonic()
            wait_for(self._asked[number], None if math.isinf(left_s) else max(left_s, 0.0))
        answers: list[_Leased | StoreError] = []
        for number in range(self._count):
            future = self._asked[number]
            if number in silent or not future.done():
                answers.append(self._silence(number))
            elif isinstance(error := future.exception(), StoreError):
                answers.append(error)
            else:
                answers.append(future.result())
        return answers

    def _silence(self, number: int) -> StoreError:
        return StoreError(f"{self._url}: partition {number} does not answer", "check its master", is_transient=True)

    def _clock(self, answer: _Leased | StoreError, began: float) -> int:
        """
        Return the first partition's clock. Without its answer, return an estimate that is never ahead of that clock.
        """
        if isinstance(answer, tuple):
            self._read_at = answer[0], time.monotonic()
        assert self._read_at is not None
        read, read_at = self._read_at
        return read + int(max(0.0, began - read_at) * 1000 * (1 - _DRIFT))

    def _kept(self, number: int, answer: _Leased | StoreError, began: float) -> list[tuple[Lease, int]]:
        held = self._held[number]
        if isinstance(answer, tuple):
            self._held[number] = _Held(answer[1], began)
            return [(lease, self._lease_ms) for lease in answer[1]]
        left = self._lease_ms - int((began - held.since) * 1000)
        if left < self._lease_ms * _TRUSTED:
            held.is_lost = held.is_lost or bool(held.leases)
            held.leases = []
        return [(replace(lease, rescued=0), left) for lease in held.leases]


def shard_of_all(number: int, shard: int, count: int) -> int:
    return shard * count + number
