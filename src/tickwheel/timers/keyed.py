"""
Internal: timers by key. Each key has at most one timer, with a value. One function is called for all keys that expire.

Keys are looked up under a re-entrant lock, as in `functools.lru_cache`. Their `__hash__` and `__eq__` may raise or
re-enter, but must not wait for another thread that uses the same wheel.

On a native engine, a pending key is set and moved without the lock, in one native step (`tickwheel._core.Keys`). So an
entry may change while another thread holds the lock. Code under the lock therefore reads a pending entry only once,
and ends the entry's timer before any other step.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from contextvars import Context, copy_context
from typing import Any, cast

from tickwheel._core import Keys
from tickwheel._core import Timer as NativeTimer
from tickwheel.clock import to_delay
from tickwheel.timers._coroutines import check_callback
from tickwheel.timers._timer import WheelTimer
from tickwheel.timers.contract import Engine, Timer
from tickwheel.timers.locks import OUTER, new_lock
from tickwheel.timers.proxy import KeyedTimerProxy, TimerProxy, end_all, listed, shown
from tickwheel.typing import NonCopyable, Pending, Seconds

__all__ = ["Keyed", "check_key"]


def check_key(key: object) -> None:
    if isinstance(key, NativeTimer | WheelTimer | TimerProxy):
        message = (
            f"key is {key!r}, a timer without a key: call its own cancel(), restart(delay) or pending(), or pass it to "
            "cancel_many or move_many"
        )
        raise TypeError(message)


class Keyed(Keys, NonCopyable):
    """
    The keyed timers of an engine. All methods may be called from any thread.

    If a key is cancelled, set or moved while it expires, the thread that takes the lock first wins. After a move that
    returned True, the key does not expire at its old time. *on_expire* is called with key and value, without a lock.
    """

    def __init__(self, engine: Engine, on_expire: Callable[[Any, Any], object] | None) -> None:
        if on_expire is not None:
            callback = on_expire.callback if isinstance(on_expire, KeyedTimerProxy) else on_expire
            check_callback(callback, is_awaited=engine.on_coroutine is not None, name="on_expire")
        self._engine = engine
        self._on_expire = on_expire
        self._entries: dict[Hashable, _Entry] = {}
        self._open(self._entries, _Entry)
        self._lock = new_lock(OUTER)

    def _check_absent(self, key: Hashable) -> None:
        check_key(key)
        if self._is_id(key):
            message = f"key is {key!r}, the id of a timer without a key: pass it to cancel_many or move_many, in a list"
            raise TypeError(message)

    def _is_id(self, key: object) -> bool:
        try:
            return hasattr(key, "__index__") and self._engine.has_id(operator.index(key))
        except TypeError:  # such as a non-integer scalar of an array
            return False

    def _set(self, key: Hashable, value: Any, delay: Seconds, *, context: Context | None = None) -> None:
        check_key(key)
        if self._on_expire is None:
            message = f"nobody would hear that {key!r} expires: pass on_expire= to the wheel"
            raise TypeError(message)
        former: tuple[Any] | None = None  # values are released without the lock
        with self._lock:
            is_set = False
            while not is_set:  # once, unless a signal handler also sets the key in between
                entry = self._find(key)
                if entry is not None:
                    if context is not None or isinstance(entry.timer, _TimerInContext):
                        if not entry.timer.restart(delay):  # `restart` also refuses an invalid delay
                            self._forget(entry)
                            continue
                        entry.timer.cancel()  # first: the native part moves pending timers without further checks
                        entry.is_live = False
                    else:
                        former = self._renew(entry, value, delay)
                        if former is not None:
                            if self._engine.captures_context and isinstance(entry.timer, WheelTimer):
                                entry.timer.context = copy_context()  # a native timer already has this context
                            return
                    self._forget(entry)
                is_set = self._add(_Entry(self, key, value), delay, context)

    def _add(self, entry: _Entry, delay: Seconds, context: Context | None) -> bool:
        """
        Set the timer of a new *entry*. Return False, and do nothing, if another thread has added an entry for the key.
        """
        timer, other = None, None
        try:
            timer = self._engine.call_later(delay, entry, context=context)
            entry.timer = timer if context is None else cast("Timer", _TimerInContext(timer))
            entry.is_live = True
            other = self._entries.setdefault(entry.key, entry)
        finally:
            if other is not entry and timer is not None:  # another entry exists, or a key or a signal handler raised
                timer.cancel()
                entry.is_live = False
        if other is entry:
            return True
        if self._find(entry.key) is None:
            self._forget(other)
        return False

    def _move(self, key: Hashable, delay: Seconds) -> bool:
        with self._lock:
            entry = self._find(key)
            if entry is not None:
                return entry.timer.restart(delay)
        to_delay(delay)  # refuses an invalid delay, as for a pending key
        self._check_absent(key)
        return False

    def cancel(self, key: Hashable) -> bool:
        with self._lock:
            entry = self._find(key)
            if entry is not None:
                entry.timer.cancel()
                entry.is_live = False
                self._forget(entry)
                return True
        self._check_absent(key)
        return False

    def get(self, key: Hashable, default: Any = None) -> Any:
        with self._lock:
            entry = self._find(key)
            if entry is not None:
                return entry.value
        check_key(key)
        return default

    def find(self, key: Hashable) -> tuple[Any, float] | None:
        with self._lock:
            entry = self._find(key)
            if entry is not None:
                return self._look(entry)
        check_key(key)
        return None

    def listed(self, limit: int | None) -> list[Pending]:
        count = limit
        while True:
            pending = self._engine.pending(count)
            keyed = [shown(each) for each in pending if isinstance(each.callback, _Entry)]
            if limit is None or count is None or len(keyed) >= limit or len(pending) < count:
                return keyed[:limit]
            count = max(2 * count, 64)  # timers without a key preceded them

    def end(self, end: Callable[[], list[Pending]]) -> list[Pending]:
        """
        Drain or close the engine by calling *end*. Return the pending timers with the callbacks and values of the user.

        If a context's callback raises a `BaseException` that is not an `Exception`, that exception is raised after all
        timers have ended.
        """
        pending: list[Pending] = []
        try:
            with self._lock:
                try:
                    pending = end()
                    ended = listed(pending)
                finally:  # also if a signal handler raises
                    entries = self._take_ended(pending)
            del entries  # release the entries without the lock
            end_all(pending)
        except BaseException:  # a signal handler may have raised anywhere; nothing is ended twice
            end_all(pending)
            raise
        return ended

    def _take_ended(self, pending: list[Pending]) -> list[_Entry]:
        """
        Forget the keys whose timers are in *pending*. Return their entries, which the caller drops without the lock.
        """
        for each in pending:
            if isinstance(each.callback, _Entry):
                each.callback.is_live = False
        entries = []
        while self._entries:
            entries.append(self._entries.popitem()[1])
        for entry in entries:
            if entry.is_live and entry.timer.pending():
                self._entries.setdefault(entry.key, entry)  # unless a signal handler has set it in the meantime
        return entries

    def after_fork(self) -> None:
        self._entries.clear()

    def _forget(self, entry: _Entry) -> None:
        other = self._entries.pop(entry.key, None)
        if other is not None and other is not entry and other.is_live:
            self._entries.setdefault(entry.key, other)

    def _find(self, key: Hashable) -> _Entry | None:
        entry = self._entries.get(key)
        return entry if entry is not None and entry.is_live and not entry.timer.cancelled() else None

    def expire(self, entry: _Entry) -> object:
        """
        Call `on_expire` for *entry* and return its result, unless the key was cancelled, set or moved before.
        """
        assert self._on_expire is not None
        return self._end(entry, self._on_expire)

    def refuse(self, entry: _Entry) -> None:
        """
        End *entry* without calling the user's code, unless the key was cancelled, set or moved before.
        """
        self._end(entry, self._on_expire.refused if isinstance(self._on_expire, KeyedTimerProxy) else None)

    def go_on(self, entry: _Entry) -> None:
        """
        Make the timer of *entry* due again if a signal handler raised before *entry* was ended.
        """
        with self._lock:
            if entry.is_live and not entry.timer.pending():
                entry.timer.reschedule(entry.timer.when())

    def _end(self, entry: _Entry, on_end: Callable[[Any, Any], object] | None) -> object:
        failure = None
        with self._lock:
            if not entry.is_live or entry.timer.pending():
                return None
            entry.is_live = False
            try:
                self._forget(entry)
            except BaseException as error:  # noqa: BLE001  the key raised an error: deliver due entries first
                failure = error
        try:
            return None if on_end is None else on_end(entry.key, entry.value)
        finally:
            if failure is not None:
                raise failure


class _TimerInContext:
    """
    Wraps the timer of a key that was set with a context, so that the native code does not recognise the timer.

    If the key is set again, the timer must be ended: the native code would move it, and the old context would stay.
    """

    __slots__ = ("_timer",)

    def __init__(self, timer: Timer) -> None:
        self._timer = timer

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._timer, verb)


class _Entry(TimerProxy):
    """
    A key of *keyed*, with its value. This object is the callback of the key's timer.
    """

    __slots__ = ("is_live", "key", "keyed", "timer", "value")

    timer: Timer

    def __init__(self, keyed: Keyed, key: Hashable, value: Any) -> None:
        self.keyed = keyed
        self.key = key
        self.value = value
        self.is_live = False

    def __call__(self) -> object:
        return self.keyed.expire(self)

    def given(self) -> tuple[None, tuple[Any, ...]]:
        return None, (self.key, self.value)

    def handle(self, timer: Any) -> None: ...

    def refused(self) -> None:
        self.keyed.refuse(self)

    def failed(self) -> None:
        self.keyed.go_on(self)

    def __repr__(self) -> str:
        return f"<the timer of key {self.key!r}>"
