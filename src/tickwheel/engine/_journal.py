"""
Adds events of nodes to the history, so that deploys, deaths and takeovers outlive the nodes.

It reads the store only when this node gains shards, since another node always gains those of a dead one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwheel._version import __version__
from tickwheel.engine._leases import Leases
from tickwheel.engine.resources import Resources
from tickwheel.jobs.history import HistoryRecord
from tickwheel.stores import Node

__all__ = ["Journal"]

_VERSION: Final = "tickwheel version"
"""The key of the records of deploys."""
_DIED: Final = "node_died"


class Journal:
    """
    Records this node and the dead nodes that it finds. Its errors go to the hooks.
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

    def look_before(self) -> None:
        if self._is_kept and not self._has_many_owners:
            self._former = [Node(shard.owner) for shard in self._store.shards() if shard.owner is not None]

    def start(self) -> None:
        try:
            if self._is_kept:
                last = self._store.history(_VERSION, None, 1)
                if not last or last[0].note != __version__:
                    self._store.add_records([self._event(_VERSION, "deployed", __version__)])
        except Exception as error:  # noqa: BLE001 - a node starts without its record
            self._hooks.failed("recording a deploy", error)
        self.look()

    def look(self) -> None:
        """
        Record the deaths of nodes, and the takeover by this node, if it has gained shards since the last call.
        """
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
        """
        Return True if the death of *node* is its last record; a takeover by it may come before or after.
        """
        return any(last.outcome == _DIED for last in self._store.history(node.owner, None, 1))

    def _event(self, key: str, outcome: str, note: str | None, due_at: int | None = None) -> HistoryRecord:
        now = self._now_ms()
        at = now if due_at is None else due_at
        return HistoryRecord(0, now, key, 0, 0, outcome, self._owner, "", "", at, note=note and note[:200])
