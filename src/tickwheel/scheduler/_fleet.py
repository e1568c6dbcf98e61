from __future__ import annotations

from collections.abc import Sequence

from tickwheel.jobs import checks
from tickwheel.jobs.incidents import Incidents
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import HistoryRecord, Job, Progress
from tickwheel.scheduler._common import Common
from tickwheel.stores import Node, Shard
from tickwheel.targets.pull import JobLease
from tickwheel.typing import Duration, Instant

__all__ = ["Fleet", "progress_of"]


class Fleet(Common):
    """
    The methods that read several jobs, and the methods of pull workers.
    """

    def upcoming(
        self, due_from: Instant | None = None, due_until: Instant | None = None, limit: int = 100
    ) -> Sequence[Job]:
        """
        Return at most *limit* (1 to 1000) of the next pending jobs, in the order of their due times.

        The jobs are due at *due_from* or later, and before *due_until*. Pass the current time as *due_from* to omit
        overdue jobs.
        """
        return self._core.client.upcoming(due_from, due_until, limit)

    def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]:
        """
        Return the number of pending jobs due in each of *steps* (1 to 1000) intervals of *step* seconds, from *since*.

        The cost grows with the number of jobs that are counted.
        """
        return self._core.client.forecast(since, step, steps)

    def shards(self) -> Sequence[Shard]:
        """
        Return all shards of the store, each with its owner, its epoch, and the end of its lease.
        """
        return self._core.client.shards()

    def nodes(self) -> Sequence[Node]:
        """
        Return the processes that fire jobs, or fired jobs in the last ten minutes, each with its last report.

        Only stores with several owners keep reports. With a store of one owner, a process knows only its own report.
        """
        return self._core.nodes()

    def progress(self, key: str) -> Progress | None:
        """
        Return the last progress reported by the handler of the running job of *key*; None if there is no report.

        Progress on this node is known immediately. Other nodes report progress at each renewal of their leases, for
        their first 50 running jobs with progress.
        """
        return progress_of(key, self._core.nodes())

    def incidents(self, search: str = "", *, prefix: str = "") -> Incidents:
        """
        Return the dead letters in groups whose errors differ only in numbers, ids and quoted values.

        Only the 10,000 dead letters with the latest due times are read. To replay the jobs of an incident, first try
        `replay_many(incident.keys[:3])`. If that succeeds, call `replay_many(incident.keys, rate=10)`. *search* selects
        letters whose key, error, target or handler contains this text, ignoring case. *prefix* selects keys.
        """
        return self._core.client.incidents(search, prefix)

    def acts(self, since: Instant, until: Instant | None = None, limit: int = 100) -> Sequence[HistoryRecord]:
        """
        Return the acts of callers on jobs and scopes, and the events of nodes, newest first.

        The span is from *since* to *until* (None: now). *limit* is 1 to 1000. A bulk change is one record. An act on a
        one-time job is recorded only if its author is a token or a user of the web page. The events are "deployed",
        "node_died" and "took_over". The limits of the history apply to all these records.
        """
        return self._core.client.acts(since, until, limit)

    def latest_dead(self, limit: int = 100, prefix: str = "") -> Sequence[Job]:
        """
        Return at most *limit* (1 to 1,000) dead letters, sorted by the last attempt's due time, latest first.

        With *prefix*, only keys that begin with *prefix* are returned, and only the latest 10,000 letters are searched.
        """
        return self._core.client.latest_dead(limit, prefix)

    def minutes(self, since: Instant, until: Instant | None = None) -> Sequence[Minute]:
        """
        Return the figures of all nodes by minute and lane: numbers of attempts, lateness, waits and durations.

        The span is from *since*, rounded down to a minute, to *until* (None: now). Minutes are kept for four hours.
        Older figures are combined into quarters of an hour, which are kept for 48 hours. A minute in which a node was
        idle is omitted. The current minute of a killed node is lost.
        """
        return self._core.client.minutes(since, until)

    def lease(
        self, queue: str, *, limit: int = 1, wait: Duration = 20.0, seconds: Duration = 60.0
    ) -> Sequence[JobLease]:
        """
        Lease due firings of the jobs with `target="pull", handler=queue`, for this caller to run.

        The caller must `ack` or `nack` each firing. If its lease ends first, the attempt counts as failed.

        Args:
            queue: Name of the queue.
            limit: Maximum number of firings, 1 to 1000.
            wait: Maximum seconds to wait for the first firing, 0 to 300. If no firing comes, the result is [].
            seconds: Length of each lease, 0.1 to 43,200.

        Raises:
            LeaseEndedError: If this scheduler is not started.
            TooManyWaitingError: If too many callers wait already.
        """
        return self._core.pulls.lease(queue, limit, wait, seconds).result()

    def ack(self, fire_id: str) -> None:
        """
        Settle the leased firing as done. The result is committed when the call returns. Repeating the call is harmless.

        Raises:
            LeaseEndedError: If the lease has ended. The job then gets another attempt, or has had it already.
        """
        self._core.pulls.ack(fire_id).result()

    def nack(
        self, fire_id: str, *, delay: Duration | None = None, error: str | None = None, is_dead: bool = False
    ) -> None:
        """
        End the leased firing as a failed attempt. Raises the errors of `ack`.

        The next attempt is in *delay* seconds (None: the delay of the job's retry policy). *error* is stored with the
        job. If *is_dead* is True, the job becomes a dead letter, even if attempts are left.
        """
        self._core.pulls.nack(fire_id, delay, error, is_dead=is_dead).result()

    def release(self, fire_id: str, *, delay: Duration | None = None) -> None:
        """
        Give a leased firing back, without counting an attempt.

        Another worker may lease it in *delay* seconds (None: now). Call this if the worker stops before the work has
        begun. Repeating the call is harmless. Raises the errors of `ack`.
        """
        self._core.pulls.release(fire_id, delay).result()

    def extend(self, fire_id: str, seconds: Duration = 60.0, *, progress: float | None = None, note: str = "") -> int:
        """
        Extend the lease to *seconds* (0.1 to 43,200) from now; return its end, in ms since the epoch.

        *progress* is the fraction of the work that is done, from 0.0 to 1.0. `Scheduler.progress` and the web page
        show it, with the *note*, which requires *progress*. Raises the errors of `ack`.
        """
        return self._core.pulls.extend(fire_id, seconds, checks.noted(progress, note)).result()


def progress_of(key: str, nodes: Sequence[Node]) -> Progress | None:
    found = [each for node in nodes for each in (node.figures or {}).get("progress", ()) if each["key"] == key]
    if not found:
        return None
    latest = max(found, key=lambda each: (each["generation"], each["attempt"]))
    return Progress(latest["fraction"], latest["note"])
