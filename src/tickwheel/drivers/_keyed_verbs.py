from __future__ import annotations

from contextvars import Context
from typing import Any, Final, Generic, TypeVar, overload

from tickwheel.timers.keyed import Keyed
from tickwheel.typing import K, Seconds, V

__all__ = ["HOT_KEYED_VERBS", "KeyedVerbs"]

HOT_KEYED_VERBS: Final = ("move", "set")
"""Methods that each wheel takes directly from its `Keyed` object, which saves a Python call."""

T = TypeVar("T")

_ABSENT: Final = object()


class KeyedVerbs(Generic[K, V]):
    """
    The methods of a wheel for timers with a key; each key has at most one timer.
    """

    _keyed: Keyed

    def set(self, key: K, value: V, delay: Seconds, *, context: Context | None = None) -> None:
        """
        Let *key* expire in *delay* seconds. The wheel then calls `on_expire(key, value)`.

        If the key is already pending, it gets the new delay, the new value and the new context.

        Args:
            key: Any hashable object.
            value: The second argument of `on_expire`.
            delay: Seconds, or a timedelta; negative counts as 0, and `inf` as never.
            context: The `contextvars.Context` in which `on_expire` is called; None for the driver's.

        Raises:
            TypeError: If *key* is not hashable, *delay* is not a number, or the wheel has no `on_expire`.
            TooManyTimersError: If `max_pending` timers are pending, and *key* is not one of them.
        """
        if context is None:
            self._keyed.set(key, value, delay)
        else:
            set_in: Any = self._keyed.set  # the native method accepts names
            set_in(key, value, delay, context=context)

    def move(self, key: K, delay: Seconds) -> bool:
        """
        Let *key* expire in *delay* seconds from now, with its current value. Return True if the key was pending.
        """
        return self._keyed.move(key, delay)

    def cancel(self, key: K) -> bool:
        """
        Forget *key*. Return True if this call prevented its expiry, False if *key* was not pending.

        To cancel a timer without a key, use its handle.
        """
        return self._keyed.cancel(key)

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: T) -> V | T: ...

    def get(self, key: K, default: Any = None) -> Any:
        """
        Return the value of a pending *key*. If *key* is not pending, return *default*, which is None if not given.
        """
        return self._keyed.get(key, default)

    def find(self, key: K) -> tuple[V, float] | None:
        """
        Return the value of a pending *key* and its expiry in seconds of `time()`, or None.
        """
        return self._keyed.find(key)

    def keys(self, limit: int | None = 100) -> list[K]:
        """
        Return at most *limit* pending keys (None: all), sorted by deadline. The call costs O(n), whatever *limit* is.
        """
        return [key for key, _ in self.items(limit)]

    def items(self, limit: int | None = 100) -> list[tuple[K, V]]:
        """
        Return the pending keys with their values, sorted by deadline. *limit* is as for `keys`.
        """
        return [(pending.args[0], pending.args[1]) for pending in self._keyed.listed(limit)]

    def __contains__(self, key: K) -> bool:
        return self._keyed.get(key, _ABSENT) is not _ABSENT
