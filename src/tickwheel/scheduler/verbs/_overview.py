"""
The scheduler for threads, as far as it is about a whole store: the forecast, the nodes, the incidents.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel.scheduler.incidents import Incidents
from tickwheel.scheduler.model import Job, Progress
from tickwheel.scheduler.stores import Node, Shard
from tickwheel.scheduler.verbs._common import Common
from tickwheel.typing import Duration, Instant

__all__ = ["Overview", "progress_of"]


class Overview(Common):
    """
    The reads that are about no single job.
    """

    def upcoming(
        self, due_from: Instant | None = None, due_until: Instant | None = None, limit: int = 100
    ) -> Sequence[Job]:
        """
        Return the next pending jobs in the order of their instants, at most *limit* (1 to 1000).

        Args:
            due_from: From this instant on; overdue ones are left out by it.
            due_until: Before this instant.
            limit: How many.
        """
        return self._core.client.upcoming(due_from, due_until, limit)

    def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]:
        """
        Return how many pending jobs fall due in each of *steps* (1 to 1000) steps of *step* seconds from *since* on.

        Costs by how many these are.
        """
        return self._core.client.forecast(since, step, steps)

    def shards(self) -> Sequence[Shard]:
        """
        Return all shards of the store, each with its owner, its epoch, and until when the lease holds.
        """
        return self._core.client.shards()

    def nodes(self) -> Sequence[Node]:
        """
        Return the processes that fire, and those that did until ten minutes ago, each with what it last reported.

        Only stores that several processes may own keep reports; of others, a process knows its own.
        """
        return self._core.nodes()

    def progress(self, key: str) -> Progress | None:
        """
        Return how far the job has come that runs under *key*, as its handler noted last; None if nothing is known.

        What runs here is known at once, what another node runs with its next report, which comes with each renewal of
        its leases. A node reports the first 50 of those that noted anything.
        """
        return progress_of(key, self._core.nodes())

    def incidents(self, search: str = "", *, prefix: str = "") -> Incidents:
        """
        Return the dead letters grouped by what went wrong: errors that differ only in numbers, names and identifiers.

        The latest 10,000 are looked at, by the instants at which they were due. To try again what one incident has:
        `replay_many(incident.keys[:3])`, and when that went well `replay_many(incident.keys, rate=10)`.

        Args:
            search: Only letters with this, in whatever case, in their key, error, target or handler.
            prefix: Only letters whose key begins with this.
        """
        return self._core.client.incidents(search, prefix)


def progress_of(key: str, nodes: Sequence[Node]) -> Progress | None:
    """
    Return what the *nodes* know of the progress of the job that runs under *key*, of its latest attempt.
    """
    found = [each for node in nodes for each in (node.figures or {}).get("progress", ()) if each["key"] == key]
    if not found:
        return None
    latest = max(found, key=lambda each: (each["generation"], each["attempt"]))
    return Progress(latest["fraction"], latest["note"])
