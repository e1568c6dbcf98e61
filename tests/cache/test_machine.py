"""
Random operations on a cache and on a simple model, which are compared after each operation.
"""

from __future__ import annotations

import math
import random

import pytest

from tickwheel.cache import Reason, TTLCache
from tickwheel.testing import ManualClock

STEPS = 4000
LIVES = (0, 1, 2, 3, 63, 64, 65, 4095, 4096, 4097, 262_144, math.inf)
"""Lifetimes in seconds. Some of them are limits of the wheel's levels."""


class Model:
    """
    A model of a cache, which keeps a row for each entry. The least recently used row is first.
    """

    def __init__(self, maxsize, *, sliding, getsizeof):
        self.maxsize, self.sliding, self.getsizeof = maxsize, sliding, getsizeof
        self.now = self.begun = 0
        self.rows = []
        self.left = []

    def leave(self, row, reason):
        self.rows.remove(row)
        self.left.append((row[0], row[1], reason))

    def expire(self):
        due = sorted((row for row in self.rows if row[2] <= self.now), key=lambda row: (row[2], row[5]))
        for row in due:
            self.leave(row, Reason.EXPIRED)
        return [(row[0], row[1]) for row in due]

    def find(self, key):
        return next((row for row in self.rows if row[0] == key), None)

    def use(self, row):
        """
        Move a row to the end, as the most recently used row.
        """
        self.rows.remove(row)
        self.rows.append(row)

    def begin(self, row, life):
        self.begun += 1
        row[2:4] = self.now + life, life
        row[5] = self.begun

    def get(self, key):
        row = self.find(key)
        if row is None:
            return None
        self.use(row)
        if self.sliding:
            self.begin(row, row[3])
        return row[1]

    def set(self, key, value, life):
        """
        Insert a value, evicting others if needed.
        """
        row, size = self.find(key), self.getsizeof(value)
        if row is not None:
            self.left.append((key, row[1], Reason.REPLACED))
            self.rows.remove(row)
        if life > 0:
            while sum(each[4] for each in self.rows) + size > self.maxsize:
                self.leave(self.rows[0], Reason.SIZE)
            self.rows.append([key, value, 0, 0, size, 0])
            self.begin(self.rows[-1], life)

    def touch(self, key, life):
        row = self.find(key)
        if row is None:
            return False
        self.use(row)
        self.begin(row, row[3] if life is None else life)
        self.expire()
        return True

    def pop(self, key):
        row = self.find(key)
        if row is None:
            return None
        self.leave(row, Reason.REMOVED)
        return row[1]


@pytest.mark.parametrize("kind", ["lazy", "driven", "sliding", "sized", "driven and sized"])
def test_a_cache_agrees_with_its_model(kind):
    """
    After each operation, items, order, remaining lifetimes and reports of the cache are the same as in the model.
    """
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it when this fails
    draw = random.Random(seed)
    clock = ManualClock(start_ns=draw.randrange(10**6) * 10**9)  # whole seconds, because floats add these up exactly
    told = []
    getsizeof = (lambda value: value % 5) if "sized" in kind else (lambda _: 1)
    time = {"clock": clock} if "driven" in kind else {"timer": clock.monotonic}
    cache = TTLCache(
        16,
        64,
        getsizeof=getsizeof if "sized" in kind else None,
        sliding=kind == "sliding",
        on_expire=lambda *entry: told.append(entry),
        on_evict=lambda *entry: told.append(entry),
        **time,
    )
    model = Model(16, sliding=kind == "sliding", getsizeof=getsizeof)
    for step in range(STEPS):
        act(draw, clock, cache, model, step)
        assert cache.expire() == model.expire() or "driven" in kind, (seed, step)
        cache.check()
        assert list(cache.items()) == [(row[0], row[1]) for row in model.rows], (seed, step)
        assert {key: cache.remaining(key) for key in cache} == pytest.approx(
            {row[0]: row[2] - model.now for row in model.rows}, abs=1e-9
        ), (seed, step)
        by_reason = lambda entry: (repr(entry[0]), entry[1], str(entry[2]))  # noqa: E731 - replaced and evicted in one step come in any order
        assert sorted(told, key=by_reason) == sorted(model.left, key=by_reason), (seed, step)
        told.clear()
        model.left.clear()


def act(draw, clock, cache, model, step):
    key = draw.choice((draw.randrange(30), f"key {draw.randrange(10)}", (draw.randrange(5), "pair")))
    verb = draw.choices(("set", "get", "touch", "pop", "popitem", "clear", "wait"), (8, 6, 3, 2, 1, 0.05, 5))[0]
    life = draw.choice((None, draw.choice(LIVES), draw.randrange(200)))
    if verb == "set":
        cache.set(key, step, ttl=life)
        model.set(key, step, 64 if life is None else life)
    elif verb == "get":
        assert cache.get(key) == model.get(key)
    elif verb == "touch":
        assert cache.touch(key, ttl=life) == model.touch(key, life)
    elif verb == "pop":
        assert cache.pop(key, None) == model.pop(key)
    elif verb == "popitem" and model.rows:
        assert cache.popitem() == (model.rows[0][0], model.pop(model.rows[0][0]))
    elif verb == "clear":
        cache.clear()
        while model.rows:
            model.leave(model.rows[0], Reason.REMOVED)
    elif verb == "wait":
        seconds = draw.choice((1, 1, draw.randrange(70), draw.randrange(5000)))
        clock.advance(seconds)
        model.now += seconds
