"""
The scheduler for threads, as far as it is about firings that callers pull and run themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel.scheduler import checks
from tickwheel.scheduler.targets.pull import JobLease
from tickwheel.scheduler.verbs._overview import Overview
from tickwheel.typing import Duration

__all__ = ["Pulling"]


class Pulling(Overview):
    """
    The verbs of pull workers.
    """

    def lease(
        self, queue: str, *, limit: int = 1, wait: Duration = 20.0, seconds: Duration = 60.0
    ) -> Sequence[JobLease]:
        """
        Return due firings of the jobs with `target="pull", handler=queue`, for this caller to run.

        Each is to be ended by `ack` or `nack` before its lease is over; otherwise the attempt has failed.

        Args:
            queue: Which queue.
            limit: How many at most, 1 to 1000.
            wait: How many seconds to wait for the first, 0 to 300; without one the answer is [].
            seconds: How long each is leased, 0.1 to 43,200.

        Raises:
            InvalidJobError: A value that is out of bounds.
            LeaseEndedError: If this scheduler is not started.
            TooManyWaitingError: If too many wait already.
        """
        return self._core.pulls.lease(queue, limit, wait, seconds).result()

    def ack(self, fire_id: str) -> None:
        """
        End the leased firing as done; it is written down when this returns. The same call again does no harm.

        Raises:
            LeaseEndedError: If it came too late: what was done is done again, or was.
        """
        self._core.pulls.ack(fire_id).result()

    def nack(
        self, fire_id: str, *, delay: Duration | None = None, error: str | None = None, is_dead: bool = False
    ) -> None:
        """
        End the leased firing as a failed attempt.

        Args:
            fire_id: Which.
            delay: Seconds until the next attempt; None for what the job's policy says.
            error: What went wrong; it is kept with the job.
            is_dead: Park the job as a dead letter, whatever attempts are left.

        Raises:
            LeaseEndedError: As `ack`.
        """
        self._core.pulls.nack(fire_id, delay, error, is_dead=is_dead).result()

    def extend(self, fire_id: str, seconds: Duration = 60.0, *, progress: float | None = None, note: str = "") -> int:
        """
        Let the lease end *seconds* from now; return when that is, in ms since the epoch.

        Args:
            fire_id: Which.
            seconds: From 0.1 to 43,200.
            progress: How far it has come, from 0.0 to 1.0, for `Scheduler.progress` and the page to show.
            note: Where it is, in words; goes with *progress*.

        Raises:
            InvalidJobError: A value that is out of bounds.
            LeaseEndedError: As `ack`.
        """
        return self._core.pulls.extend(fire_id, seconds, checks.noted(progress, note)).result()
