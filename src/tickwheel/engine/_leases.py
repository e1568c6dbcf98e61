"""
Takes, renews and releases the leases, and reports this node to the other nodes.

A lease is a lock on a shard: the right to fire its jobs. A lease that is a lock of the operating system does not
expire, so a renewal only detects its loss. Any other lease is renewed after a third of its length, and sooner after a
failure. It is trusted until shortly before its end. Its owner counts its length from before the call that granted it,
on a clock that also runs while the machine is suspended. A process that was paused therefore detects the end of its
lease before it acts.

Renewals must not be delayed, so hooks, logs and reports run in another thread, the heartbeat. With each renewal, the
heartbeat reports the figures of this node to the other nodes. The journal records deploys, deaths of nodes, and
takeovers in the history. It searches for dead nodes only when this node gains shards, because the shards of a dead node
go to a live node.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tickwheel._version import __version__
from tickwheel.calendar.zone import zone_release
from tickwheel.engine._callbacks import EngineCallbacks
from tickwheel.engine.figures import Figures
from tickwheel.engine.resources import Resources
from tickwheel.jobs.errors import StoreInUseError
from tickwheel.jobs.history import HistoryRecord
from tickwheel.observe.events import OwnershipGained, OwnershipLost
from tickwheel.stores import Lease, Node

__all__ = ["Heartbeat", "Journal", "Leases"]

_LENGTH_S: Final = 3.0
"""Assumed length of a lease while none is held."""

_RENEWALS: Final = 3

_TRIES: Final = 4
"""Number of retries of a failed renewal, before the next regular renewal."""

_MARGIN: Final = 0.2
"""Last fraction of a lease, which is not trusted because clocks drift and a firing takes time to begin."""


class Leases:
    def __init__(self, resources: Resources, callbacks: EngineCallbacks) -> None:
        self._store = resources.store
        self._owner = resources.owner
        self._clock = resources.clock
        self._hooks = resources.hooks
        self._callbacks = callbacks
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
        Return True if the store has answered within the length of a lease.

        If the store allows only one owner, the result is True only if this node is that owner.
        """
        if not self.is_renewing:  # there is nothing to renew
            return True
        has_right = self._store.abilities.has_many_owners or bool(self.held)
        return has_right and self._clock.elapsed() / 1e3 - self._answered_at <= _RENEWALS * self.pause_s()

    def figures(self) -> dict[str, Any]:
        """
        Return figures about the renewals of leases.

        `trusted_s` is the time for which leases are still trusted, or None if they have no end. `silent_s` is the time
        since the last answer of the store, or None if nothing has to be renewed.
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
        self._callbacks.set_leases((), set())  # entries left by an interrupted stop must not start
        self._store.release(self._owner)

    def take_gained(self) -> list[Lease]:
        return [self._gained.popleft() for _ in range(len(self._gained))]

    def report_news(self) -> None:
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
                self._callbacks.on_renewal_failed()
            else:
                self.renewals += 1
                pause_s = self.pause_s()
                self._callbacks.on_renewed()

    def _renewed(self, owner: str) -> list[Lease]:
        kept = self._store.renew(owner)
        if not self._store.abilities.has_many_owners:
            if kept:
                return kept
            self._hold(())  # the file may have been moved, and may reappear
        try:
            return self._store.acquire(owner)
        except StoreInUseError:  # another owner has the file until its process ends
            return []

    def _take(self, take: Callable[[str], list[Lease]]) -> None:
        elapsed = self._clock.elapsed()
        before = elapsed / 1e3
        leases = tuple(take(self._owner))
        # If a shard is lost while the leases are trusted, it was handed over: no other owner could take it.
        is_handed_over = self._store.abilities.has_many_owners and self.is_trusted()
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
            self._callbacks.set_leases(leases, {epoch for _, epoch in old - new})
        self.held = leases  # set last: after an error, the next renewal calls `set_leases` again
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


_SPAN_S: Final = 60.0
"""Length of the window over which lateness and rate are measured. The window may be longer by `_STEP_S`."""
_STEP_S: Final = 5.0
"""Minimum time between two readings of lateness and rate, however often leases are renewed."""
_HANDLERS_MAX: Final = 200
"""Maximum number of handler names in a report."""
_RECENT_MAX: Final = 50
"""Maximum number of finished firings in a report: their keys and outcomes."""


class Heartbeat:
    """
    Reports the figures of one node, in its own thread. `ask` and `figures` may be called from any thread.

    *leases* gives the interval of heartbeats, and the gained and lost leases that are reported to hooks. Hooks run in
    this thread because they may block. *on_renewed* is called in this thread after a renewal.
    """

    def __init__(
        self,
        resources: Resources,
        figures: Figures,
        sizes: Callable[[], dict[str, int]],
        progress: Callable[[], list[dict[str, Any]]],
        leases: Leases,
        *,
        lanes: Callable[[], dict[str, Any]],
        handlers: Callable[[], Sequence[str]],
        on_renewed: Callable[[], object],
    ) -> None:
        self._store = resources.store
        self._owner = resources.owner
        self._hooks = resources.hooks
        self._monotonic = resources.runtime.monotonic
        self._figures = figures
        self._sizes = sizes
        self._progress = progress
        self._lanes = lanes
        self._leases = leases
        self._handlers = handlers
        self._on_renewed = on_renewed
        self._started_at = resources.clock.now_ms()
        self._places = resources.options.workers
        self._zones = (zone_release() or ("",))[0]
        self._past = deque([self._now()])
        self._current_thread = resources.runtime.current_thread
        self._is_stopped = False
        self._asked = resources.runtime.event()
        self._thread = resources.runtime.thread(target=self._run, name="tickwheel-heartbeat", daemon=True)

    def start(self) -> None:
        self.beat()
        if self._leases.is_renewing:
            self._thread.start()

    def ask(self) -> None:
        """
        Request a report from the heartbeat's thread. Requests during a report result in one more report.
        """
        self._asked.set()

    def stop(self, timeout_s: float) -> None:
        self._is_stopped = True
        self._asked.set()
        if self._thread.is_alive() and self._thread is not self._current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            self._leases.report_news()
            if self._is_stopped:
                return
            self._on_renewed()
            self.beat()

    def beat(self) -> None:
        now = self._monotonic()
        while len(self._past) > 1 and self._past[1][0] <= now - _SPAN_S:
            self._past.popleft()
        if now - self._past[-1][0] >= _STEP_S:
            self._past.append(self._now())
        if not self._store.abilities.has_many_owners:
            return
        try:
            self._store.report(self._owner, self.figures())
        except Exception as error:  # noqa: BLE001 - this thread must not end
            self._hooks.failed("reporting figures", error)

    def figures(self) -> dict[str, Any]:
        at, fired, counts = self._past[0]
        lateness, number = self._figures.lateness, self._figures.counts
        handlers = sorted(self._handlers())
        return {
            "version": __version__,
            "started_at": self._started_at,
            "every_s": round(self._leases.pause_s(), 3),
            "fired": number["fired"],
            "failed": number["failed"],
            "dead": number["dead_total"],
            "places": self._places,
            "handlers": handlers[:_HANDLERS_MAX],
            "has_more_handlers": len(handlers) > _HANDLERS_MAX,
            "zones": self._zones,
            **self._sizes(),
            "progress": self._progress(),
            **self._lanes(),
            "recent": self._recent(),
            "service": self._figures.service,
            "lately": {
                "span_s": round(self._monotonic() - at, 3),
                "fired": number["fired"] - fired,
                **lateness.since(counts),
            },
        }

    def _recent(self) -> list[dict[str, Any]]:
        recent = self._figures.recent
        return [
            {
                "key": each.key,
                "generation": each.generation,
                "attempt": each.attempt,
                "fired_at": int(each.fired_at),
                "lateness_ms": round(each.fired_at - each.due_at, 3),
                "outcome": "failed" if each.outcome == "retried" else each.outcome,
            }
            for each in recent.after(recent.number - _RECENT_MAX, list, self._owner)
        ]

    def _now(self) -> tuple[float, int, list[int]]:
        return self._monotonic(), self._figures.counts["fired"], self._figures.lateness.snapshot()


_VERSION: Final = "tickwheel version"
"""The key under which the history records deploys."""
_DIED: Final = "node_died"


class Journal:
    """
    Records deploys, deaths of nodes, and takeovers by this node in the history.
    """

    def __init__(self, resources: Resources, leases: Leases) -> None:
        self._store = resources.store
        self._owner = resources.owner
        self._now_ms = resources.clock.now_ms
        self._hooks = resources.hooks
        self._leases = leases
        self._is_kept = resources.options.history.keep != "none"
        self._has_many_owners = resources.store.abilities.has_many_owners
        self._former: Sequence[Node] = ()

    def remember_owners(self) -> None:
        if self._is_kept and not self._has_many_owners:
            self._former = [Node(shard.owner) for shard in self._store.shards() if shard.owner is not None]

    def start(self) -> None:
        try:
            if self._is_kept:
                last = self._store.history(_VERSION, None, 1)
                if not last or last[0].note != __version__:
                    self._store.add_records([self._event(_VERSION, "deployed", __version__)])
        except Exception as error:  # noqa: BLE001 - a node also starts without this record
            self._hooks.failed("recording a deploy", error)
        self.record_deaths()

    def record_deaths(self) -> None:
        gained = self._leases.take_gained()
        if not gained or not self._is_kept:
            return
        try:
            dead = [node for node in self._dead() if not self._is_noted(node)]
            records = [self._event(node.owner, _DIED, None, node.until) for node in dead]
            rescued = sum(lease.rescued for lease in gained)
            if dead or rescued:
                shards = ", ".join(str(lease.shard) for lease in gained)
                note = f"attempts cut off: {rescued}; shards: {shards}"
                records.append(self._event(self._owner, "took_over", note))
            if records:
                self._store.add_records(records)
        except Exception as error:  # noqa: BLE001 - the heartbeat must not end
            self._hooks.failed("recording a takeover", error)

    def _dead(self) -> list[Node]:
        former, self._former = self._former, ()
        if not self._has_many_owners:
            return [node for node in former if node.owner != self._owner]
        now = self._store.now_ms()
        return [node for node in self._store.nodes() if node.is_dead(now)]

    def _is_noted(self, node: Node) -> bool:
        return any(last.outcome == _DIED for last in self._store.history(node.owner, None, 1))

    def _event(self, key: str, outcome: str, note: str | None, due_at: int | None = None) -> HistoryRecord:
        now = self._now_ms()
        at = now if due_at is None else due_at
        return HistoryRecord(0, now, key, 0, 0, outcome, self._owner, "", "", at, note=note and note[:200])
