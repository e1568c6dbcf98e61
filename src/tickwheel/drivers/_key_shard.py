"""
The shard of a key, and the callback by which a shard says that a key expires.
"""

from __future__ import annotations

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
    """

    __slots__ = ("lives", "wheel")

    def __init__(self, wheel: TimerWheel) -> None:
        self.wheel = wheel
        self.lives = 0


class OnExpire(KeyedStandIn):
    """
    The callback of the shards for a key that expires: *expire*, or *refuse* where an executor would not take it.
    """

    __slots__ = ("_expire", "_refuse")

    def __init__(
        self,
        callback: Callable[[Any, Any], object],
        expire: Callable[[Any, Any], object],
        refuse: Callable[[Any, Any], None],
    ) -> None:
        self.callback = callback
        self._expire = expire
        self._refuse = refuse

    def __call__(self, key: Hashable, item: Any, /) -> object:
        return self._expire(key, item)

    def refused(self, key: Hashable, item: Any, /) -> None:
        """
        Pass it on.
        """
        self._refuse(key, item)
