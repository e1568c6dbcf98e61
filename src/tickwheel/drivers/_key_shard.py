"""
The route from a key to its shard, the current shard of a key, and the shards' callback for expired keys.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Hashable
from typing import Any

from tickwheel.drivers._timer_wheel import TimerWheel
from tickwheel.timers.proxy import KeyedTimerProxy

__all__ = ["KeyShard", "OnExpire", "jump_hash", "stable_hash"]


class KeyShard:
    """
    The shard of a key that is pending or expiring. Its wheel stores (`KeyShard`, value) as the value of the key.

    A life of the key begins when it is set, and ends when it was cancelled or its `on_expire` has returned. Between the
    wheel and `on_expire` a life is in no list; so lives are counted, and a key changes its wheel only if it has none.
    The wheel's thread holds pending timers, and so this object: neither may hold the wheel, or it would never be
    released.
    """

    __slots__ = ("_wheel", "lives")

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = weakref.ref(wheel)
        self.lives = 0

    @property
    def wheel(self) -> TimerWheel:
        wheel = self._wheel()
        assert wheel is not None, "a shard is held for as long as a key is there"
        return wheel

    @wheel.setter
    def wheel(self, wheel: TimerWheel) -> None:
        self._wheel = weakref.ref(wheel)


class OnExpire(KeyedTimerProxy):
    """
    The shards' callback for an expired key: calls the user's callback, and then *end_life*, a weakly held method.
    """

    __slots__ = ("_end_life",)

    def __init__(
        self, callback: Callable[[Any, Any], object], end_life: Callable[[Hashable, KeyShard], object]
    ) -> None:
        self.callback = callback
        self._end_life = weakref.WeakMethod(end_life)

    def __call__(self, key: Hashable, item: Any, /) -> object:
        try:
            return self.callback(key, item[1])
        finally:
            self.refused(key, item)

    def refused(self, key: Hashable, item: Any, /) -> None:
        end_life = self._end_life()
        if end_life is not None:  # otherwise the shards were dropped
            end_life(key, item[0])


def stable_hash(key: Hashable) -> int:
    """
    Return a hash of *key* that is the same in every process for text, bytes and integers; for others `hash(key)`.

    Equal keys have equal hashes, including 1, 1.0 and True.
    """
    if isinstance(key, str):
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, bytes):
        return zlib.crc32(key)
    return hash(key) & (2**64 - 1)


def jump_hash(number: int, shards: int) -> int:
    """
    Return a shard in 0..*shards* - 1 for a number, such that an additional shard moves only the keys that it receives.

    J. Lamping, E. Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014. O(log shards).
    """
    state = number
    chosen, candidate = -1, 0
    while candidate < shards:
        chosen = candidate
        state = (state * 2862933555777941757 + 1) & (2**64 - 1)
        candidate = int((chosen + 1) * (2.0**31 / ((state >> 33) + 1)))
    return chosen
