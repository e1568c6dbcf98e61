"""
The resources that all background roles share.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel.drivers import TimerWheel
from tickwheel.engine._starter import Starter
from tickwheel.engine.elapsed import Elapsed
from tickwheel.host.hooks import Hooks
from tickwheel.host.options import SchedulerOptions
from tickwheel.host.partitioned_writer import PartitionedWriter
from tickwheel.host.runtime import Runtime
from tickwheel.host.store_clock import StoreClock
from tickwheel.host.writer import Writer
from tickwheel.observe.tracing import Tracer
from tickwheel.stores import Store

__all__ = ["Resources"]


@dataclass(frozen=True, slots=True)
class Resources:
    """
    The parts that every role uses and no role owns.

    Attributes:
        owner: The name of this start of the scheduler in the store: no other scheduler and no later start has it.
        store: The open store; the stager, the leases and the watcher read it.
        writer: The only way to write to it.
        clock: The store's clock, read without asking the store.
        elapsed: The jobs that count elapsed time, whatever the clock is set to.
        timers: The near wheel, on the scheduler's clock.
        pacer: A wheel on the real clock, for waits on threads and stores: the same wheel, unless a test moves the
            scheduler's clock by hand.
        tracer: Makes spans of firings; None without tracing.
    """

    runtime: Runtime
    owner: str
    store: Store
    writer: Writer | PartitionedWriter
    clock: StoreClock
    elapsed: Elapsed
    timers: TimerWheel
    pacer: TimerWheel
    hooks: Hooks
    options: SchedulerOptions
    tracer: Tracer | None = None

    def starter(self, purpose: str) -> Starter:
        return Starter(purpose, self.hooks, self.pacer)
