"""
Takes, renews and releases the leases, which are locks on shards: the right to fire their jobs.

A store that a lock of the system guards gives leases without an end; renewing them only detects a loss. Other leases
are renewed at a third of their length, and sooner after a failure. They are trusted until a margin before their end,
counted by elapsed time, in suspend as well, from before the call that granted them: a paused process finds out before
it acts, not after.

The thread that renews has a deadline and so does nothing else: hooks, logs and reports run in the heartbeat's thread,
and work that waited for a renewal in the timers' thread.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tickwheel.engine._way import Way
from tickwheel.engine.resources import Resources
from tickwheel.jobs.errors import StoreInUseError
from tickwheel.observe.events import OwnershipGained, OwnershipLost
from tickwheel.stores import Lease

__all__ = ["Leases"]

_LENGTH_S: Final = 3.0
"""Assumed length of a lease while none is held."""

_RENEWALS: Final = 3
"""Number of renewals per lease length."""

_TRIES: Final = 4
"""Attempts at a failed renewal within the time between two renewals. If a call fails at its deadline, a fifth of the
lease later, there is time for two more before the lease is no longer trusted."""

_MARGIN: Final = 0.2
"""The last part of a lease that is not trusted: clocks of two machines drift, and a firing takes time to begin."""


class Leases:
    """
    Holds the leases of this owner.

    Args:
        way: Called when leases are gained or lost, and after each renewal.
    """

    def __init__(self, resources: Resources, way: Way) -> None:
        self._store = resources.store
        self._owner = resources.owner
        self._clock = resources.clock
        self._hooks = resources.hooks
        self._way = way
        self._monotonic = resources.runtime.monotonic
        self._current_thread = resources.runtime.current_thread
        self._news: deque[Callable[[], object]] = deque()
        self._stopped = resources.runtime.event()
        self._thread = resources.runtime.thread(target=self._renew, name="tickwheel-leases", daemon=True)
        self._trusted_until: float | None = None
        self._answered_at = -math.inf
        self.held: tuple[Lease, ...] = ()
        self._gained: deque[Lease] = deque()
        self.renewals = 0
        self.failures = 0

    def acquire(self) -> None:
        """
        Take the free leases, and renew those that have an end; raise a `StoreInUseError` if another is the only owner.
        """
        self._take(self._store.acquire)
        self.report_news()
        abilities = self._store.abilities
        if abilities.has_many_owners or abilities.renew_s or any(lease.until is not None for lease in self.held):
            self._thread.start()

    @property
    def is_renewing(self) -> bool:
        return self._thread.is_alive()

    def is_trusted(self) -> bool:
        return self._trusted_until is None or self._clock.elapsed() / 1e3 < self._trusted_until

    def is_answered(self) -> bool:
        """
        Return whether the store has answered within a lease's length, and, if it allows only one owner, this is it.
        """
        if not self.is_renewing:  # there is nothing to renew
            return True
        has_right = self._store.abilities.has_many_owners or bool(self.held)
        return has_right and self._clock.elapsed() / 1e3 - self._answered_at <= _RENEWALS * self.pause_s()

    def figures(self) -> dict[str, Any]:
        """
        Return the numbers of renewals and failures, and for how long leases are trusted and the store has been silent.

        Leases without an end are trusted for None; if nothing has to be renewed, the silence is None.
        """
        until, now = self._trusted_until, self._clock.elapsed() / 1e3
        trusted_s = None if until is None else max(0.0, until - now)
        silent_s = max(0.0, now - self._answered_at) if self.is_renewing else None
        return {"renewals": self.renewals, "failures": self.failures, "trusted_s": trusted_s, "silent_s": silent_s}

    def release(self) -> None:
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not self._current_thread():
            self._thread.join()
        self.held = ()
        self._way.owns((), set())  # what a stop that was interrupted has left may not start
        self._store.release(self._owner)

    def take_gained(self) -> list[Lease]:
        return [self._gained.popleft() for _ in range(len(self._gained))]

    def report_news(self) -> None:
        """
        Report to the hooks the gained and lost shards, and the failed renewals, since the last call of this method.
        """
        while self._news:
            self._news.popleft()()

    def _renew(self) -> None:
        begun_at, pause_s = self._monotonic(), self.pause_s()
        while not self._stopped.wait(max(0.0, begun_at + pause_s - self._monotonic())):
            begun_at = self._monotonic()
            try:
                self._take(self._renewed)
            except Exception as error:  # noqa: BLE001 - this thread must not end: nothing would fire any more
                self.failures += 1
                pause_s = self.pause_s() / _TRIES
                self._news.append(partial(self._hooks.failed, "renewing leases", error))
                self._way.not_renewed()
            else:
                self.renewals += 1
                pause_s = self.pause_s()
                self._way.renewed()

    def _renewed(self, owner: str) -> list[Lease]:
        kept = self._store.renew(owner)
        if not self._store.abilities.has_many_owners:
            if kept:
                return kept
            self._hold(())  # such as of a file that was moved away: it may come back
        try:
            return self._store.acquire(owner)
        except StoreInUseError:  # by the owner that has followed: if that ends, it is free again
            return []

    def _take(self, take: Callable[[str], list[Lease]]) -> None:
        elapsed = self._clock.elapsed()
        before = elapsed / 1e3
        leases = tuple(take(self._owner))
        is_handed_over = self._store.abilities.has_many_owners and self.is_trusted()  # nobody else can have had it yet
        ends = [(lease.until - lease.granted_at) / 1000 for lease in leases if lease.until is not None]
        self._trusted_until = before + min(ends) * (1 - _MARGIN) if ends else None
        if ends:
            self._clock.sample(leases[0].granted_at, elapsed, self._clock.elapsed())
        self._hold(leases, is_handed_over=is_handed_over)
        self._answered_at = before

    def _hold(self, leases: tuple[Lease, ...], *, is_handed_over: bool = False) -> None:
        old = {(lease.shard, lease.epoch) for lease in self.held}
        new = {(lease.shard, lease.epoch) for lease in leases}
        rescued = {lease.shard: lease.rescued for lease in leases}
        if old != new:
            self._way.owns(leases, {epoch for _, epoch in old - new})
        self.held = leases  # only now: if that raised, the next renewal says it again
        self._gained.extend(lease for lease in leases if (lease.shard, lease.epoch) not in old)
        for shard, epoch in sorted(new - old):
            self._news.append(partial(self._hooks.emit, OwnershipGained(shard, epoch, rescued[shard])))
        for shard, epoch in sorted(old - new):
            self._news.append(partial(self._hooks.emit, OwnershipLost(shard, epoch, is_handed_over)))

    def pause_s(self) -> float:
        lengths = [(lease.until - lease.granted_at) / 1000 for lease in self.held if lease.until is not None]
        if lengths:
            return min(lengths) / _RENEWALS
        return self._store.abilities.renew_s or _LENGTH_S / _RENEWALS
