"""
The caches of tickwheel with the decorators of cachetools.
"""

from __future__ import annotations

import pytest

from tickwheel.cache import TTLCache


def test_it_counts_as_a_cache_of_cachetools():
    """
    Decorators of cachetools respect the maxsize of tickwheel's caches.
    """
    early = TTLCache(3, 60.0)
    cachetools = pytest.importorskip("cachetools")
    TTLCache(3, 60.0)
    assert isinstance(early, cachetools.Cache)

    @cachetools.cached(early, info=True)
    def same(n):
        return n

    assert same(same(1)) == 1
    assert same.cache_info() == (1, 1, 3, 1)
