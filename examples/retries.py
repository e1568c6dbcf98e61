"""
Call a function that fails at first: retries with increasing delays, a dead letter, and its replay.

    python examples/retries.py [STORE]
"""

from __future__ import annotations

import sys
import threading

from tickwheel.observe.events import Event, JobDied, JobFailed, JobSucceeded
from tickwheel.scheduler import Firing, RetryPolicy, Scheduler


def main(store: str = "memory://") -> None:
    """
    Let a job fail three times, repair the cause, and replay the dead letter.
    """
    is_mended, died, done = threading.Event(), threading.Event(), threading.Event()

    def tell(event: Event) -> None:
        if isinstance(event, JobFailed):
            print(f"attempt {event.attempt} failed, another one comes: {event.error}")
        elif isinstance(event, JobDied):
            print(f"attempt {event.attempt} was the last: {event.error}")
            died.set()
        elif isinstance(event, JobSucceeded):
            print(f"attempt {event.attempt} succeeded")
            done.set()

    with Scheduler(store) as scheduler:
        scheduler.subscribe(tell)

        @scheduler.task(name="export", retry=RetryPolicy(attempts=3, kind="exponential", base_ms=50))
        def export(firing: Firing, table: str) -> None:
            if not is_mended.is_set():
                message = f"no space left for {table}"
                raise OSError(message)
            print(f"exported {table} as {firing.fire_id}")

        scheduler.set("export/orders", export.of("orders"), delay=0)
        died.wait()
        print("dead letters:", [job.key for job in scheduler.list(state="dead").jobs])
        is_mended.set()
        scheduler.replay("export/orders")
        done.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
