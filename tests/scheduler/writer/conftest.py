"""
Fixtures of the writer's tests: writers, and a store that can be held and made to fail.
"""

from __future__ import annotations

import pytest

from tickwheel.host.runtime import Runtime
from tickwheel.host.writer import Writer
from tickwheel.stores import MemoryStore
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.testing.faulty_store import FaultyStore

PATIENCE_S = 20.0


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    """
    Return a store that can be held and made to fail. It wraps a memory store or a SQLite store.
    """
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "jobs.db")
    store.open()
    yield FaultyStore(store)
    store.close()


@pytest.fixture
def make(store):
    """
    Return a function that makes writers.

    The fixture closes them at the end.
    """
    made = []

    def make_one(**options):
        made.append(Writer(store, Runtime(), **options))
        return made[-1]

    yield make_one
    for writer in made:
        assert writer.close(PATIENCE_S)
