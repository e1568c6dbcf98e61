"""
The heartbeat: the report of this node to all nodes that share its store, sent with each renewal of its leases.

It has a thread of its own, because a report may take long, and must not delay the next renewal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel._version import __version__
from tickwheel.calendar.zone import zone_release
from tickwheel.engine._leases import Leases
from tickwheel.engine.figures import Figures
from tickwheel.engine.resources import Resources

__all__ = ["Heartbeat"]

_SPAN_S: Final = 60.0
"""Length of the window over which the lateness and the rate are measured; it may be one step longer."""
_STEP_S: Final = 5.0
"""Minimum time between two readings that are kept, however often leases are renewed."""
_HANDLERS_MAX: Final = 200
"""Maximum number of handler names in a report."""
_RECENT_MAX: Final = 50
"""Maximum number of finished firings in a report: their keys and outcomes."""


class Heartbeat:
    """
    The figures of one node, and the thread that reports them. `ask` and `figures` may be called from any thread.

    Args:
        resources: The resources of all roles.
        figures: Counters of the firings of this node.
        sizes: Returns the numbers of jobs that this node holds.
        progress: Returns the progress of running jobs.
        leases: Gives the interval of heartbeats, from which other nodes see that one is missing; and news for the
            hooks, which may block in this thread.
        lanes: Returns the figures of its lanes, pull queues and receivers.
        handlers: Returns the names of its handlers.
        on_renewed: Called in the heartbeat's thread after a renewal.
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
        Request a report from the heartbeat's thread; requests during a report result in one more report.
        """
        self._asked.set()

    def stop(self, timeout_s: float) -> None:
        """
        Send no further report, and wait up to *timeout_s* for a report that is under way.
        """
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
        """
        Report the figures, if the store can have other nodes; a failure is only passed to the hooks.
        """
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
