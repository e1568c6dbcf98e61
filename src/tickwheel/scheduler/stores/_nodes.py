"""
The nodes that a store reports, and for how long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwheel.scheduler.stores.contract import Node, Shard

__all__ = ["KEPT_MS", "owners_of"]

KEPT_MS: Final = 600_000
"""How long a node is reported after its leases have ended: until somebody has looked."""


def owners_of(shards: Sequence[Shard]) -> list[Node]:
    """
    Return the owners of *shards* as nodes, where nothing else is known of them.
    """
    ends = {shard.owner: shard.until for shard in shards if shard.owner is not None}
    return [Node(owner, until) for owner, until in sorted(ends.items())]
