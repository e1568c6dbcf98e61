"""
Samples the store's clock just before jobs are due, in a thread of its own.

Between two samples either clock may be slewed, that is, run up to a tenth faster or slower until it is right. So a job
fires when the last sample proves that it is due, and a sample that is a few milliseconds old proves it in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwheel.engine.resources import Resources
from tickwheel.host.store_clock import StoreClock

__all__ = ["Sampler"]

_FRESH_MS: Final = 2.0
"""A younger sample is not repeated: its error is at most a fifth of a millisecond."""
_LEAD_MIN_S: Final = 0.002
_LEAD_MAX_S: Final = 0.04
"""Bounds of the time between a sample and the instant, which is twice the duration of the last sample."""
_RETRY_S: Final = 0.5


class Sampler:
    """
    Samples on demand. `ask` may be called from any thread; it does nothing if the store uses this machine's clock.

    Args:
        on_sample: Called after each sample, in the sampler's thread.
    """

    def __init__(self, resources: Resources, on_sample: Callable[[], object]) -> None:
        self._store = resources.store
        self._clock: StoreClock = resources.clock
        self._hooks = resources.hooks
        self._on_sample = on_sample
        self._current_thread = resources.runtime.current_thread
        self._asked, self._stopped = resources.runtime.event(), resources.runtime.event()
        self.lead_s = _LEAD_MIN_S
        self._thread = resources.runtime.thread(target=self._run, name="tickwheel-clock", daemon=True)

    def start(self) -> None:
        if self._clock.is_sampled:
            self._thread.start()

    def stop(self, timeout_s: float | None) -> None:
        self._stopped.set()
        self._asked.set()
        if self._thread.is_alive() and self._thread is not self._current_thread():
            self._thread.join(timeout_s)

    def ask(self) -> None:
        if self._clock.is_sampled and self._clock.age_ms() > _FRESH_MS:
            self._asked.set()

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._stopped.is_set():
                return
            try:
                before = self._clock.elapsed()
                self._clock.sample(self._store.now_ms(), before, after := self._clock.elapsed())
            except Exception as error:  # noqa: BLE001 - this thread must not end: jobs would fire late
                self._hooks.failed("reading the store's clock", error)
                if self._stopped.wait(_RETRY_S):
                    return
                continue
            self.lead_s = min(max(_LEAD_MIN_S, 2 * (after - before) / 1e3), _LEAD_MAX_S)
            self._on_sample()
