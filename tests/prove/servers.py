"""
Real servers for proofs that run as programs.

Tests get their servers from fixtures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SUPPORT = str(Path(__file__).parents[1] / "support")
if SUPPORT not in sys.path:  # pytest adds this path; a program does not
    sys.path.insert(0, SUPPORT)

import redis_servers  # noqa: E402 - as the path has it
from postgres_servers import Postgres, PostgresPair  # noqa: E402 - as the path has it
from processes import lent  # noqa: E402 - as the path has it

__all__ = ["postgres", "postgres_pair", "redis_group", "redis_url"]

lend = contextmanager(lent)


@contextmanager
def postgres() -> Iterator[Any]:
    with lend(Postgres) as make:
        yield make()


@contextmanager
def postgres_pair(*, is_synchronous: bool) -> Iterator[Any]:
    with lend(Postgres) as make:
        yield PostgresPair(make, is_synchronous=is_synchronous)


@contextmanager
def redis_url() -> Iterator[str]:
    """
    Provide the URL of a running Redis that syncs before each answer.

    Leases last one second.
    """
    with lend(redis_servers.Redis) as make:
        server = make("--appendonly", "yes", "--appendfsync", "always")
        yield f"unix://{server.folder / 'socket'}?lease_s=1"


@contextmanager
def redis_group(kind: str, **options: Any) -> Iterator[Any]:
    """
    Provide a `RedisCluster` or `RedisSentinels`, whose servers are stopped at the end.
    """
    with lend(redis_servers.Redis) as make:
        group = getattr(redis_servers, kind)(make, **options)
        try:
            yield group
        finally:
            group.stop()
