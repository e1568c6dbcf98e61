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
    The shard of a key that is pending or expiring.

    *lives* is the number of the key's pending timers and unfinished expiries.
    """

    __slots__ = ("_wheel", "lives")

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = weakref.ref(wheel)  # the wheel's thread refers to this object, and must not keep the wheel alive
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
    Calls the user's callback for an expired key, and then *end_life*. The reference to *end_life* is weak.
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
        if end_life is not None:  # otherwise the shards were deleted
            end_life(key, item[0])


def stable_hash(key: Hashable) -> int:
    """
    Return a hash of *key*. For text, bytes and integers, the hash is the same in every process.
    """
    if isinstance(key, str):
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, bytes):
        return zlib.crc32(key)
    return hash(key) & (2**64 - 1)


def jump_hash(number: int, shards: int) -> int:
    """
    Return the shard of *number*, in O(log *shards*). If a shard is added, numbers move only to the new shard.

    J. Lamping, E. Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014.
    """
    state = number
    chosen, candidate = -1, 0
    while candidate < shards:
        chosen = candidate
        state = (state * 2862933555777941757 + 1) & (2**64 - 1)
        candidate = int((chosen + 1) * (2.0**31 / ((state >> 33) + 1)))
    return chosen
