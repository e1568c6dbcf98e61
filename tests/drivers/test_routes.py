"""
The assignment of keys to shards, and the detection of hot keys.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from typing import Any

from tickwheel.drivers._hot_keys import SIZE, WINDOW, HotKeys
from tickwheel.drivers._key_shard import jump_hash, stable_hash


def test_heavy_hitters():
    """
    A key is detected as hot if its share of all operations is above the threshold, whatever the other keys are.
    """
    hot_keys = HotKeys(0.05)
    rng = random.Random(3)
    hot: Counter[Any] = Counter()
    for number in range(5 * WINDOW):
        key: Any = "heavy" if rng.random() < 0.1 else number
        if hot_keys.count(key):
            hot[key] += 1
    assert set(hot) == {"heavy"}
    assert len(hot_keys._counts) <= SIZE
    assert hot_keys.is_cold("never seen")


def test_jump_hash_moves_little():
    """
    A new shard gets an equal share of keys from every old shard, and no key moves between old shards.
    """
    keys = [stable_hash(f"key {number}") for number in range(20_000)]
    for shards in range(1, 9):
        before = [jump_hash(key, shards) for key in keys]
        after = [jump_hash(key, shards + 1) for key in keys]
        moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert {new for _, new in moved} == {shards}
        assert 0.9 < len(moved) / (len(keys) / (shards + 1)) < 1.1
        assert max(Counter(after).values()) < 1.15 * len(keys) / (shards + 1)


def test_the_hash_is_the_same_in_every_process():
    """
    Texts, bytes and integers have the same hash in another process with a different hash seed.
    """
    script = """
from tickwheel.drivers._key_shard import stable_hash
print(*map(stable_hash, ("text", b"bytes", 5, -7, "\\udc80")))
"""
    command = [sys.executable, "-c", script]
    told = {
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert told == {" ".join(str(stable_hash(key)) for key in ("text", b"bytes", 5, -7, "\udc80")) + "\n"}
