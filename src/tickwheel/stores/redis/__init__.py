"""
Stores jobs in Redis, for processes on several machines. Jobs are as durable as the server's append-only file.
"""

from __future__ import annotations

from tickwheel.stores.redis._partition import WHOLE, Partition
from tickwheel.stores.redis._partitioned import PartitionedRedisStore
from tickwheel.stores.redis._store import RedisStore

__all__ = ["WHOLE", "Partition", "PartitionedRedisStore", "RedisStore"]
