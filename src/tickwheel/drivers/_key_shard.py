"""
The shard of a key, and the callback by which a shard says that a key expires.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from tickwheel.drivers._timer_wheel import TimerWheel
from tickwheel.timers.standin import KeyedStandIn

__all__ = ["KeyShard", "OnExpire"]


class KeyShard:
    """
    The shard of a key that is pending or expiring. Its wheel has it with (`KeyShard`, value) as the value.

    A life begins when the key is set, and ends when it was cancelled or its `on_expire` has returned. On its way from
    the wheel to `on_expire` a life is in no list; so lives are counted, and a key changes its wheel only without one.

    The wheel's thread holds what is pending, and so this: neither may hold the wheel, or it would never be let go.
    """

    __slots__ = ("_wheel", "lives")

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = weakref.ref(wheel)
        self.lives = 0

    @property
    def wheel(self) -> TimerWheel:
        """
        Return the shard, which the `ShardedWheel` holds.
        """
        wheel = self._wheel()
        assert wheel is not None, "a shard is held for as long as a key is there"
        return wheel

    @wheel.setter
    def wheel(self, wheel: TimerWheel) -> None:
        self._wheel = weakref.ref(wheel)


class OnExpire(KeyedStandIn):
    """
    The callback of the shards for a key that expires: the user's, and then *end_life*, a method that is held weakly.
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
        """
        Note that this life of *key* has ended.
        """
        end_life = self._end_life()
        if end_life is not None:  # else the shards were dropped, and nobody asks them any more
            end_life(key, item[0])
