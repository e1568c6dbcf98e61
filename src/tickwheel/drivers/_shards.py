"""
Several wheels, called shards, each with its own thread, behind the keyed methods of one wheel.

A hash assigns each key to a shard. The callbacks of a shard run one after the other, so expiries of one key keep their
order, and a blocking callback delays only its own shard.

The assignment of a key changes when a shard is added, or when the key becomes hot. The key moves at its next `set` or
`move`, unless its callback is running then: two callbacks of one key must not run at the same time. Adding a shard
copies no keys and blocks no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from tickwheel.clock import Clock, to_delay
from tickwheel.drivers._hot_keys import HotKeys
from tickwheel.drivers._key_shard import KeyShard, OnExpire, jump_hash, stable_hash
from tickwheel.drivers._timer_wheel import TimerWheel, hand_out
from tickwheel.drivers.executors import Executor
from tickwheel.drivers.fork import call_after_fork
from tickwheel.errors import ClosedError, TooManyTimersError
from tickwheel.timers.keyed import check_key
from tickwheel.timers.locks import OUTERMOST, new_lock
from tickwheel.typing import ErrorHandler, K, NonCopyable, Pending, Seconds, V
from tickwheel.wheels.contract import Wheel, checked_count

__all__ = ["ShardedWheel"]

T = TypeVar("T")


class ShardedWheel(NonCopyable, Generic[K, V]):
    """
    Keyed timers over several wheels. All methods may be called from any thread.

    When a key changes its wheel, float rounding may make its deadline a few nanoseconds later, but never earlier.

    * *shards* is the initial number of wheels.
    * *on_expire* is called with key and value when a key expires, in the thread of its shard.
    * A key with at least *hot_share* of all `set` and `move` calls is hot, and gets its own wheel. The share must be
      more than 1/64; with None no key is hot. *hot_max* is the maximum number of keys that have their own wheels.
    * *make_wheel* returns the wheel of each shard; None for a native wheel.
    * *clock*, *on_error*, *max_pending* (for each shard) and *executor* are as for `TimerWheel`.

    Raises:
        ValueError: If *shards* is below 1, *hot_max* below 0, or *hot_share* is outside of its range.
    """

    def __init__(
        self,
        shards: int = 4,
        *,
        on_expire: Callable[[K, V], object],
        hot_share: float | None = None,
        hot_max: int = 8,
        make_wheel: Callable[[], Wheel | None] = lambda: None,
        clock: Clock | None = None,
        on_error: ErrorHandler | None = None,
        max_pending: int | None = None,
        executor: Executor | None = None,
    ) -> None:
        for option, value, least in (("shards", shards, 1), ("hot_max", hot_max, 0)):
            checked_count(value, option, least)
        self._on_expire = on_expire
        self._options: dict[str, Any] = {
            "clock": clock,
            "on_error": on_error,
            "max_pending": max_pending,
            "executor": executor,
        }
        self._make_wheel = make_wheel
        self._hot_keys = None if hot_share is None else HotKeys(hot_share)
        self._hot_max = hot_max
        self._hot: dict[Hashable, TimerWheel] = {}
        self._retiring: list[TimerWheel] = []
        self._key_shards: dict[Hashable, KeyShard] = {}
        self._lock = new_lock(OUTERMOST)
        self._is_closed = False
        self._shards: list[TimerWheel] = []
        self._shards += [self._new_wheel() for _ in range(shards)]
        call_after_fork(self)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self)} pending"
        return f"<{type(self).__name__} {state} on {self.shards()} shards>"

    def __len__(self) -> int:
        with self._lock:
            return sum(len(wheel) for wheel in self._wheels())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: K) -> bool:
        return self.find(key) is not None

    def shards(self) -> int:
        """
        Return the number of shards, without the wheels of hot keys.
        """
        return len(self._shards)

    def set(self, key: K, value: V, delay: Seconds) -> None:
        """
        Let *key* expire in *delay* seconds. A pending key is moved and gets the new value.

        The errors are those of `TimerWheel.set`.
        """
        to_delay(delay)  # validates it before anything is changed
        check_key(key)
        with self._lock:
            if self._is_closed:
                raise ClosedError
            self._set(self._belongs(key), key, value, delay)

    def move(self, key: K, delay: Seconds) -> bool:
        """
        Let *key* expire in *delay* seconds from now, with its current value. Return True if the key was pending.

        The errors are those of `TimerWheel.move`.
        """
        to_delay(delay)
        check_key(key)
        with self._lock:
            return key in self._key_shards and self._move_to(self._belongs(key), key, delay)

    def cancel(self, key: K) -> bool:
        """
        Forget *key*. Return True if this call prevented its expiry, False if *key* was not pending.
        """
        with self._lock:
            key_shard = self._key_shards.get(key)
            if key_shard is None:
                check_key(key)
            if key_shard is None or not key_shard.wheel.cancel(key):
                return False
            self._end_life(key, key_shard)
            return True

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: T) -> V | T: ...

    def get(self, key: K, default: Any = None) -> Any:
        """
        Return the value of a pending *key*. If *key* is not pending, return *default*, which is None if not given.
        """
        found = self.find(key)
        return default if found is None else found[0]

    def find(self, key: K) -> tuple[V, float] | None:
        """
        Return the value of a pending *key* and its expiry in seconds of the shards' clock, or None.
        """
        with self._lock:
            key_shard = self._key_shards.get(key)
            if key_shard is None:
                check_key(key)
            found = None if key_shard is None else key_shard.wheel.find(key)
            return None if found is None else (found[0][1], found[1])

    def keys(self, limit: int | None = 100) -> list[K]:
        """
        Return the pending keys, sorted by deadline. *limit* is as for `TimerWheel.keys`.
        """
        return [key for key, _ in self.items(limit)]

    def items(self, limit: int | None = 100) -> list[tuple[K, V]]:
        """
        Return the pending keys with their values, sorted by deadline. *limit* is as for `keys`.
        """
        return [(pending.args[0], pending.args[1]) for pending in self.pending(limit)]

    def pending(self, limit: int | None = 100) -> list[Pending]:
        """
        Return the pending timers, sorted by deadline. *limit* is as for `keys`.
        """
        with self._lock:
            found = [pending for wheel in self._wheels() for pending in wheel.pending(limit)]
        return sorted((_shown(each) for each in found), key=lambda pending: pending.deadline)[:limit]

    def add_shard(self) -> None:
        """
        Add a shard without blocking a thread. Keys of the new shard move there with their next `set` or `move`.
        """
        with self._lock:
            if self._is_closed:
                raise ClosedError
            self._shards.append(self._new_wheel())

    def drain(self, fn: Callable[[K, V], object] | None = None) -> list[Pending]:
        """
        Cancel all pending keys and return them, sorted by deadline. *fn* is as for `TimerWheel.drain`.
        """
        drained = self._end(TimerWheel.drain)
        if fn is not None:
            hand_out(drained, fn)
        return drained

    def close(self) -> list[Pending]:
        """
        Cancel and return all pending keys, and refuse further ones. A second call returns [].
        """
        with self._lock:
            self._is_closed = True
        return self._end(TimerWheel.close)

    def join(self, timeout: Seconds | None = None) -> bool:
        """
        Wait until no callback of the closed shards is running, at most *timeout* seconds for each shard.

        Returns:
            True if no callback is running.
        """
        return all(wheel.join(timeout) for wheel in self._wheels())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        self.join()

    def stats(self) -> dict[str, Any]:
        """
        Return the statistics of the wheel.

        `shards` and `pending` are the numbers of shards and of pending keys. `keys` also counts keys whose callbacks
        are running. `wheels` is the number of wheels: one for each shard and each hot key. `hot` has the hot keys, and
        `by_shard` the statistics of each shard.
        """
        with self._lock:
            return {
                "shards": len(self._shards),
                "pending": len(self),
                "keys": len(self._key_shards),
                "hot": list(self._hot),
                "wheels": len(self._wheels()),
                "by_shard": [shard.stats() for shard in self._shards],
            }

    def check(self) -> None:
        """
        Verify the invariants of each shard, and that each key is in its recorded shard only.
        """
        with self._lock:
            wheels = self._wheels()
            for wheel in wheels:
                wheel.check()
            for key, key_shard in self._key_shards.items():
                where = [wheel for wheel in wheels if key in wheel]
                assert where in ([], [key_shard.wheel]), f"{key!r} is on {where}, not on {key_shard.wheel}"
            assert len(self) <= len(self._key_shards), "every key has its shard"

    def after_fork(self) -> None:
        """
        Forget all keys, because the wheels are empty in the child of a fork.
        """
        self._key_shards.clear()
        self._retiring.clear()

    def _set(self, home: TimerWheel, key: Hashable, value: Any, delay: Seconds) -> None:
        key_shard = self._key_shards.get(key)
        if key_shard is None:
            key_shard = KeyShard(home)
            home.set(key, (key_shard, value), delay)
            self._key_shards[key] = key_shard
            key_shard.lives = 1
            return
        former = key_shard.wheel
        found = former.find(key)
        if former.cancel(key):
            key_shard.lives -= 1
        else:
            found = None
        # The key stays while an `on_expire` of it is outstanding, because the other shard's thread might overtake it.
        self._put(former, former if key_shard.lives else home, key, (key_shard, value), delay, cancelled=found)

    def _move_to(self, home: TimerWheel, key: Hashable, delay: Seconds) -> bool:
        """
        Give *key* a new delay, and move it to *home* unless its `on_expire` is running. Return True if it was pending.
        """
        key_shard = self._key_shards.get(key)
        if key_shard is None:
            return False
        former = key_shard.wheel
        if home is former or key_shard.lives > 1:
            return former.move(key, delay)
        found = former.find(key)
        if found is None or not former.cancel(key):
            return False
        key_shard.lives -= 1
        self._put(former, home, key, found[0], delay, cancelled=found)
        return True

    def _put(
        self,
        former: TimerWheel,
        wheel: TimerWheel,
        key: Hashable,
        item: tuple[KeyShard, Any],
        delay: Seconds,
        *,
        cancelled: tuple[Any, float] | None,
    ) -> None:
        key_shard = item[0]
        try:
            wheel.set(key, item, delay)
        except BaseException:
            if cancelled is not None:
                former.set(key, cancelled[0], max(cancelled[1] - former.time(), 0.0))
                key_shard.lives += 1
            raise
        key_shard.lives += 1
        if wheel is not former:
            key_shard.wheel = wheel
            self._retire(former)

    def _belongs(self, key: Hashable) -> TimerWheel:
        if self._hot_keys is not None:
            is_hot = self._hot_keys.count(key)
            if self._hot_keys.has_cooled():
                for cold in [hot for hot in self._hot if self._hot_keys.is_cold(hot)]:
                    self._cool(cold)
            if key in self._hot:
                return self._hot[key]
            if is_hot and len(self._hot) + len(self._retiring) < self._hot_max:
                return self._hot.setdefault(key, self._new_wheel())
        return self._home(key)

    def _home(self, key: Hashable) -> TimerWheel:
        return self._shards[jump_hash(stable_hash(key), len(self._shards))]

    def _cool(self, key: Hashable) -> None:
        """
        Move a key that is no longer hot from its own wheel to its shard, and close that wheel.
        """
        wheel = self._hot.pop(key)
        self._retiring.append(wheel)
        found = wheel.find(key)
        if found is not None:
            with suppress(TooManyTimersError):
                self._move_to(self._home(key), key, max(found[1] - wheel.time(), 0.0))
        self._retire(wheel)

    def _retire(self, wheel: TimerWheel) -> None:
        if wheel in self._retiring and not any(each.wheel is wheel for each in self._key_shards.copy().values()):
            self._retiring.remove(wheel)
            wheel.close()

    def _end_life(self, key: Hashable, key_shard: KeyShard) -> None:
        with self._lock:
            key_shard.lives -= 1
            if not key_shard.lives and self._key_shards.get(key) is key_shard:
                del self._key_shards[key]
                self._retire(key_shard.wheel)

    def _end(self, end: Callable[[TimerWheel], list[Pending]]) -> list[Pending]:
        with self._lock:
            ended = [pending for wheel in self._wheels() for pending in end(wheel)]
            for pending in ended:
                pending.args[1][0].lives -= 1
            # Any call may run a finalizer or a signal handler that sets a key. From here on, such a key goes into the
            # new table.
            former, self._key_shards = self._key_shards, {}
            for key, key_shard in former.items():
                if key_shard.lives:  # the key is expiring or about to expire
                    self._key_shards.setdefault(key, key_shard)
        del former  # release the last references to keys without the lock
        return sorted((_shown(each) for each in ended), key=lambda pending: pending.deadline)

    def _wheels(self) -> list[TimerWheel]:
        return [*self._shards, *self._hot.values(), *self._retiring]

    def _new_wheel(self) -> TimerWheel:
        on_expire = OnExpire(self._on_expire, self._end_life)
        return TimerWheel(wheel=self._make_wheel(), on_expire=on_expire, **self._options)


def _shown(pending: Pending) -> Pending:
    key, (_, value) = pending.args
    return Pending(None, (key, value), pending.deadline, pending.remaining)
