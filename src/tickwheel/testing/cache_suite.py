"""
The contract suite of caches: threads, event loops, clocks, contexts, errors and interruptions.

To test a cache, write a subclass, which pytest collects. Its `make` returns a cache whose entries live for a minute:

    class TestMyCache(CacheSuite):
        def make(self, clock, **options):
            return MyCache(1000, ttl=60.0, timer=clock.monotonic, **options)
"""

from __future__ import annotations

import asyncio
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable
from contextvars import ContextVar
from decimal import Decimal, localcontext
from pathlib import Path
from queue import SimpleQueue
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any, Final, Self

import tickwheel.cache
from tickwheel.cache import Loaded, Reason, Refresh, TLRUCache, TTLCache
from tickwheel.testing.manual_clock import ManualClock

__all__ = ["CacheSuite", "Interruption"]

PATIENCE_S: Final = 30.0
"""Maximum wait in seconds for an event that should be immediate. Only a failure takes that long."""
_ROOM: Final = str(Path(tickwheel.cache.__file__).parent)
_WAITERS: Final = 8
_tenant: ContextVar[str] = ContextVar("_tenant", default="none")


class Interruption:
    """
    Raises *error* at chosen lines of the cache's code, as a signal handler may.

    *numbers* chooses the lines in the order of their execution: 7 is the seventh line that is executed.
    """

    def __init__(self, error: type[BaseException], *numbers: int) -> None:
        self.error = error
        self.numbers = numbers
        self.lines = 0
        self.where: list[str] = []

    def __repr__(self) -> str:
        return f"<Interruption by {self.error.__name__} at {self.numbers}, {self.lines} lines counted>"

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(_ROOM):
            return None
        if event == "line":
            self.lines += 1
            if self.lines in self.numbers:
                self.where.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
                raise self.error
        return self._trace


class _Zap(BaseException):
    pass


class CacheSuite:
    """
    Tests for the promises that a cache makes. A subclass provides `make`.
    """

    @abstractmethod
    def make(self, clock: ManualClock, **options: Any) -> TTLCache[Any, Any] | TLRUCache[Any, Any]:
        """
        Return an empty cache on *clock* whose entries live for sixty seconds.

        *options* are `on_expire`, `on_evict`, `refresh` or `load_timeout` as for `TTLCache`.
        """

    def test_threads_share_a_load(self) -> None:
        cache, calls = self.make(ManualClock()), []
        begun, go_on = threading.Event(), threading.Event()

        def load(key: str) -> str:
            calls.append(key)
            begun.set()
            go_on.wait(PATIENCE_S)
            return key.upper()

        first = _Call(cache.take, "key", load)
        begun.wait(PATIENCE_S)
        others = [_Call(cache.take, "key", load) for _ in range(_WAITERS)]
        _until(lambda: cache.stats().loads.shared == _WAITERS)
        go_on.set()
        assert [call.outcome() for call in (first, *others)] == ["KEY"] * (_WAITERS + 1)
        assert calls == ["key"]

    def test_each_thread_gets_an_error_of_its_own(self) -> None:
        cache = self.make(ManualClock())
        begun, go_on = threading.Event(), threading.Event()

        def load(key: str) -> str:
            begun.set()
            go_on.wait(PATIENCE_S)
            try:
                return dict[str, str]()[key]
            except KeyError as cause:
                error = OSError(5, "down", key)
                error.detail = cache  # type: ignore[attr-defined]
                raise error from cause

        def first_caller() -> object:
            try:
                return dict[str, str]()["known to the first caller alone"]
            except KeyError:
                return cache.take("key", load)

        first = _Call(first_caller)
        begun.wait(PATIENCE_S)
        others = [_Call(cache.take, "key", load) for _ in range(_WAITERS)]
        _until(lambda: cache.stats().loads.shared == _WAITERS)
        go_on.set()
        errors = [call.outcome() for call in (first, *others)]
        assert len(set(map(id, errors))) == len(errors)
        for error in errors[1:]:
            assert (type(error), error.args, error.filename, error.detail) == (OSError, (5, "down"), "key", cache)
            names = [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)]
            assert (names[0], names[-1], names.count("first_caller")) == ("_run", "load", 0)
            assert type(error.__cause__) is KeyError
            assert error.__cause__.__context__ is None

    def test_each_task_gets_an_error_of_its_own(self) -> None:
        cache = self.make(ManualClock())
        secrets = [f"secret of {number}" for number in range(_WAITERS)]

        async def load(_key: str) -> str:
            await asyncio.sleep(0)
            raise OSError("down")

        async def request(secret: str) -> set[object]:
            try:
                await cache.take_async("key", load)
            except OSError as error:
                frames = [frame for frame, _ in walk_tb(error.__traceback__)]
                return {value for frame in frames for value in frame.f_locals.values() if value in secrets}
            raise AssertionError(secret)

        async def main() -> list[set[object]]:
            return await asyncio.gather(*map(request, secrets))

        assert asyncio.run(main()) == [{secret} for secret in secrets]

    def test_a_refresh_sees_the_callers_context(self) -> None:
        clock = ManualClock()
        cache = self.make(clock, refresh=Refresh(ahead=30.0))
        seen: SimpleQueue[tuple[str, Decimal]] = SimpleQueue()

        def load(_key: str) -> str:
            seen.put((_tenant.get(), Decimal(1) / 3))
            return "value"

        async def load_async(key: str) -> str:
            return load(key)

        token = _tenant.set("ours")
        try:
            with localcontext() as context:
                context.prec = 5
                expected = ("ours", Decimal(1) / 3)
                for take in (cache.take, lambda *call: asyncio.run(_settled(cache.take_async(call[0], load_async)))):
                    cache["key"] = "old"
                    clock.advance(40.0)
                    assert take("key", load) == "old"
                    assert seen.get(timeout=PATIENCE_S) == expected
        finally:
            _tenant.reset(token)

    def test_a_failing_refresh_rests(self) -> None:
        clock, calls = ManualClock(), []
        rules = Refresh(stale_if_error=600.0, retry_after=5.0)
        cache = self.make(clock, refresh=rules)
        cache["key"] = "old"
        clock.advance(61.0)

        def fail(key: str) -> str:
            calls.append(key)
            raise OSError("down")

        async def fail_async(key: str) -> str:
            return fail(key)

        for _ in range(10):
            assert cache.take("key", fail) == "old"
            assert asyncio.run(cache.take_async("key", fail_async)) == "old"
        assert len(calls) == 1
        clock.advance(5.0)
        assert cache.take("key", fail) == "old"
        assert len(calls) == 2
        clock.advance(5.0)
        assert cache.take("key", str.upper) == "KEY"

    def test_a_loaded_value_has_a_life_of_its_own(self) -> None:
        clock = ManualClock()
        cache = self.make(clock)

        async def load(key: str) -> Loaded[str]:
            return Loaded(key, ttl=7.0)

        assert cache.take("a", lambda key: Loaded(key, ttl=5.0)) == "a"
        assert asyncio.run(cache.take_async("b", load)) == "b"
        assert cache.take_many(["c", "d"], lambda _: {"c": Loaded(None, 9.0), "d": 1}) == {"c": None, "d": 1}
        assert cache.take("e", Loaded) == "e"
        assert cache.take("f", lambda key: Loaded(key, 0.0)) == "f"
        assert [cache.remaining(key) for key in "abcdef"] == [5.0, 7.0, 9.0, 60.0, 60.0, None]

    def test_a_late_load_of_a_thread_is_not_waited_for(self) -> None:
        cache = self.make(ManualClock(), load_timeout=0.01)
        begun, go_on = threading.Event(), threading.Event()

        def hang(_key: str) -> str:
            begun.set()
            go_on.wait(PATIENCE_S)
            return "late"

        async def load(key: str) -> str:
            return key

        first = _Call(cache.take, "key", hang)
        begun.wait(PATIENCE_S)
        outcomes = [_Call(cache.take, "key", lambda _: "own").outcome() for _ in range(2)]
        assert outcomes[-1] == "own"
        assert asyncio.run(cache.take_async("key", load)) == "own"
        go_on.set()
        assert first.outcome() == "own"  # not the newer value, which was loaded later

    def test_a_late_load_of_a_task_is_cancelled(self) -> None:
        cache, ended = self.make(ManualClock(), load_timeout=0.1), []  # long enough for all of them to wait

        async def hang(_key: str) -> str:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(1)
            raise AssertionError

        async def load(key: str) -> str:
            return key

        async def main() -> None:
            takes = [cache.take_async("key", hang) for _ in range(3)]
            outcomes = await asyncio.gather(*takes, return_exceptions=True)
            assert [isinstance(outcome, TimeoutError) for outcome in outcomes] == [True] * 3
            assert ended == [1]
            assert await cache.take_async("key", load) == "key"

        asyncio.run(main())

    def test_what_has_expired_leaves_as_expired(self) -> None:
        acts: dict[str, Callable[[Any], object]] = {
            "set": lambda cache: cache.set("key", "new"),
            "item": lambda cache: cache.__setitem__("key", "new"),
            "many": lambda cache: cache.set_many({"key": "new"}),
            "default": lambda cache: cache.setdefault("key", "new"),
            "take": lambda cache: cache.take("key", lambda _: "new"),
            "pop": lambda cache: cache.pop("key", None),
            "clear": lambda cache: cache.clear(),
            "popitem": lambda cache: len(cache) and cache.popitem(),
            "expire": lambda cache: cache.expire(),
        }
        for name, act in acts.items():
            for refresh in (None, Refresh(stale_if_error=0.5)):
                clock = ManualClock()
                left: list[Any] = []
                made: list[Any] = []

                def note(key: str, value: str, reason: Reason, left: list[Any] = left, made: list[Any] = made) -> None:
                    left.append((key, value, reason, made[0].peek(key)))

                cache = self.make(clock, on_expire=note, on_evict=note, refresh=refresh)
                made.append(cache)
                cache["key"] = "old"
                clock.jump(60.25 if refresh else 61.0)
                act(cache)
                if refresh is None or name not in {"popitem", "expire"}:
                    assert left == [("key", "old", Reason.EXPIRED, None)], name
                    assert (cache.stats().expirations, sum(cache.stats().evictions.values())) == (1, 0), name

    def test_reads_remove_what_has_expired(self) -> None:
        reads: list[Callable[[Any], object]] = [
            lambda cache: cache["hot"],
            lambda cache: cache.get("hot"),
            lambda cache: cache.get("missing"),
            lambda cache: cache.get_many(["hot", "missing"]),
            lambda cache: cache.take("hot", str),
        ]
        for read in reads:
            clock = ManualClock()
            gone: list[Any] = []
            cache = self.make(clock, on_expire=lambda key, *_, gone=gone: gone.append(key))
            cache.set_many(dict.fromkeys(range(500), 1))
            cache.set("hot", 1, ttl=1000.0)
            clock.jump(61.0)
            for _ in range(500):
                read(cache)
            assert sorted(gone) == list(range(500))

    def test_an_interrupted_load_leaves_no_key_behind(self) -> None:
        calls: list[Callable[[Any], object]] = [
            lambda cache: cache.take("key", str.upper),
            lambda cache: cache.take_many(["key", "other"], lambda keys: dict.fromkeys(keys, 1)),
        ]

        async def load(key: str) -> str:
            return key

        with asyncio.Runner() as runner:
            for call in calls:
                self._interrupt(call, lambda cache: runner.run(cache.take_async("key", load)))

    def _interrupt(self, call: Callable[[Any], object], take: Callable[[Any], object]) -> None:
        number = 0
        while True:
            number += 1
            cache = self.make(ManualClock())
            with Interruption(_Zap, number) as interruption:
                try:
                    call(cache)
                except _Zap:
                    pass
                else:
                    assert not interruption.where, f"it was swallowed at {interruption.where}"
            if not interruption.where:
                break
            for key in ("key", "other"):
                cache.pop(key, None)
                assert _Call(cache.take, key, lambda _: "there").outcome() == "there", interruption.where
                cache.pop(key, None)
                assert cache.take(key, lambda _: "here") == "here", interruption.where
                cache.pop(key, None)
            assert take(cache) == "key", interruption.where
            cache.check()


class _Call:
    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._outcomes: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(function, *args), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            self._outcomes.append(function(*args))
        except Exception as error:  # noqa: BLE001  the error is the outcome
            self._outcomes.append(error)

    def outcome(self) -> Any:
        self._thread.join(PATIENCE_S)
        assert self._outcomes, "a thread hangs"
        return self._outcomes[0]


def _until(is_true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.001)):
        if is_true():
            return
        pause.wait(0.001)
    raise AssertionError("it did not come")


async def _settled(taking: Any) -> Any:
    value = await taking
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)
    return value
