"""
Real servers for the proofs that run as programs; the tests have theirs from fixtures.
"""

from __future__ import annotations

import importlib.util
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["postgres", "postgres_pair", "redis_group", "redis_url"]


@contextmanager
def postgres() -> Iterator[Any]:
    """
    Lend a running PostgreSQL, which is stopped in the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="tickwheel-"))
    server = _module().Postgres(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@contextmanager
def postgres_pair(*, is_synchronous: bool) -> Iterator[Any]:
    """
    Lend a running primary and its standby, which are stopped in the end.
    """
    module, made = _module(), []

    def make(*settings: str, standby_of: Any = None) -> Any:
        made.append(module.Postgres(Path(tempfile.mkdtemp(prefix="tickwheel-")), *settings, standby_of=standby_of))
        made[-1].start()
        return made[-1]

    try:
        yield module.PostgresPair(make, is_synchronous=is_synchronous)
    finally:
        for server in made:
            server.stop()
            shutil.rmtree(server.folder)


@contextmanager
def redis_url() -> Iterator[str]:
    """
    Lend the URL of a running Redis that syncs each answer, with leases of a second.
    """
    folder = Path(tempfile.mkdtemp(prefix="tickwheel-"))
    server = _module().Redis(folder, "--appendonly", "yes", "--appendfsync", "always")
    server.start()
    try:
        yield f"unix://{folder / 'socket'}?lease_s=1"
    finally:
        server.stop()
        shutil.rmtree(folder)


@contextmanager
def redis_group(kind: str, **options: Any) -> Iterator[Any]:
    """
    Lend a `RedisCluster` or `RedisSentinels`, whose servers are stopped in the end.
    """
    module, made = _module(), []

    def make(*settings: str) -> Any:
        made.append(module.Redis(Path(tempfile.mkdtemp(prefix="tickwheel-")), *settings))
        made[-1].start()
        return made[-1]

    try:
        yield getattr(_module("redis_groups"), kind)(make, **options)
    finally:
        for server in made:
            server.stop(signal.SIGKILL)
            shutil.rmtree(server.folder)


def _module(name: str = "conftest") -> Any:
    """
    Return what starts servers for the tests of stores.
    """
    place = Path(__file__).parents[1] / "scheduler" / "stores" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"store_servers_{name}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
