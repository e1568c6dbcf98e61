"""
A sharded wheel. Each key is in one shard, and its events are in order.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import ClosedError, InvalidDelayError, ShardedWheel, TooManyTimersError
from tickwheel.drivers._hot_keys import WINDOW
from tickwheel.drivers._key_shard import jump_hash, stable_hash
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

PATIENCE_S = 30.0


class Rig:
    """
    A sharded wheel on a manual clock, and the keys that have expired.
    """

    def __init__(self, make_wheel: Callable[[], Any], shards: int = 4, **options: Any) -> None:
        self.clock = ManualClock()
        self.expired: list[tuple[Any, Any]] = []
        self.errors: list[BaseException] = []
        options.setdefault("on_expire", lambda key, value: self.expired.append((key, value)))
        self.wheel = ShardedWheel(
            shards,
            make_wheel=make_wheel,
            clock=self.clock,
            on_error=lambda error, _: self.errors.append(error),
            **options,
        )

    def advance(self, delay: float) -> list[tuple[Any, Any]]:
        before = len(self.expired)
        self.clock.advance(delay)
        self.wheel.check()
        return self.expired[before:]


@pytest.fixture(params=["native", "heap"])
def make_rig(request: pytest.FixtureRequest) -> Callable[..., Rig]:
    kind: Callable[[], Any] = HeapWheel if request.param == "heap" else lambda: None
    return lambda *args, **options: Rig(kind, *args, **options)


def test_each_key_expires_once(make_rig):
    """
    A thousand keys in several shards expire once each, on time, and with the value that was set last.
    """
    rig = make_rig(5)
    for number in range(1_000):
        rig.wheel.set(f"key {number}", "old", 1)
        rig.wheel.set(f"key {number}", number, 1 + number % 3)
    assert len(rig.wheel) == 1_000
    assert min(each["pending"] for each in rig.wheel.stats()["by_shard"]) > 100, "they are spread"
    for second in range(3):
        assert Counter(rig.advance(1)) == Counter((f"key {number}", number) for number in range(second, 1_000, 3))
    assert len(rig.wheel) == 0
    assert rig.wheel.stats()["keys"] == 0


def test_the_verbs(make_rig):
    rig = make_rig()
    rig.wheel.set("a", 1, 5)
    assert ("a" in rig.wheel, rig.wheel.get("a"), rig.wheel.get("b", 0)) == (True, 1, 0)
    assert rig.wheel.find("a") == (1, pytest.approx(rig.clock.monotonic() + 5, abs=1e-6))
    assert rig.wheel.move("a", 2)
    assert not rig.wheel.move("b", 2)
    assert rig.advance(2) == [("a", 1)]
    rig.wheel.set("a", 2, 5)
    assert [rig.wheel.cancel("a"), rig.wheel.cancel("a")] == [True, False]
    assert rig.advance(10) == []
    assert rig.wheel.stats()["keys"] == 0


def test_equal_keys_are_one_key(make_rig):
    rig = make_rig(7)
    rig.wheel.set(1, "int", 1)
    rig.wheel.set(1.0, "float", 1)
    rig.wheel.set(True, "bool", 1)
    assert rig.advance(1) == [(1, "bool")]


def test_a_shard_is_added(make_rig):
    """
    A new shard gets its share of the keys that are set or moved later, and each key expires once.
    """
    rig = make_rig(3)
    for number in range(600):
        rig.wheel.set(number, "first", 10)
    rig.wheel.add_shard()
    assert rig.wheel.shards() == 4
    for number in range(0, 600, 2):
        rig.wheel.set(number, "second", 10)
    for number in range(1, 600, 4):
        rig.wheel.move(number, 20)
    new = rig.wheel.stats()["by_shard"][3]
    assert 80 < new["pending"] < 160
    assert len(rig.wheel) == 600
    rig.wheel.check()
    assert Counter(rig.advance(10)) == Counter(
        [(number, "second") for number in range(0, 600, 2)] + [(number, "first") for number in range(3, 600, 4)]
    )
    assert Counter(rig.advance(10)) == Counter((number, "first") for number in range(1, 600, 4))


def test_set_while_it_expires(make_rig):
    """
    If `on_expire` sets the expiring key again, the key stays on its shard, even if shards were added.
    """
    where: list[int] = []

    def on_expire(key: Any, value: int) -> None:
        where.append(next(number for number, each in enumerate(rig.wheel._shards) if each is place(key).wheel))
        if value < 4:
            rig.wheel.add_shard()
            rig.wheel.set(key, value + 1, 1)

    def place(key: Any) -> Any:
        return rig.wheel._key_shards[key]

    rig = make_rig(1, on_expire=on_expire)
    rig.wheel.set("key 5", 0, 1)
    rig.advance(10)
    assert where == [0] * 5
    rig.wheel.set("key 5", 9, 1)
    home = jump_hash(stable_hash("key 5"), 5)
    assert [each["pending"] for each in rig.wheel.stats()["by_shard"]] == [number == home for number in range(5)]


def test_drain_and_close(make_rig):
    """
    `drain` and `close` return the keys of all shards, ordered by deadline.
    """
    rig = make_rig()
    for number in range(50):
        rig.wheel.set(number, -number, 50 - number)
    drained = rig.wheel.drain(lambda key, value: rig.wheel.set(key, value, 5) if key < 3 else None)
    assert [each.args for each in drained] == [(number, -number) for number in reversed(range(50))]
    assert len(rig.wheel) == 3
    assert len(rig.advance(5)) == 3
    rig.wheel.set("a", 1, 5)
    assert [each.args for each in rig.wheel.close()] == [("a", 1)]
    assert rig.wheel.close() == []
    for refused in (lambda: rig.wheel.set("a", 1, 1), rig.wheel.add_shard):
        with pytest.raises(ClosedError):
            refused()
    assert (rig.wheel.move("a", 1), rig.wheel.cancel("a"), rig.wheel.get("a")) == (False, False, None)
    assert rig.wheel.join(PATIENCE_S)


def test_bad_input(make_rig):
    """
    An invalid delay, key, `hot_share`, `hot_max` or number of shards is refused.

    The error names the invalid argument, and nothing is changed.
    """
    rig = make_rig()
    rig.wheel.set("a", 1, 1)
    for use in (lambda: rig.wheel.set("b", 1, float("nan")), lambda: rig.wheel.move("a", float("nan"))):
        with pytest.raises(InvalidDelayError):
            use()
    with pytest.raises(TypeError, match="unhashable"):
        rig.wheel.set([], 1, 1)
    with pytest.raises(ValueError, match="shards is 0"):
        make_rig(0)
    for shards in (2.5, "3", None, True):
        with pytest.raises(TypeError, match=f"shards is {shards!r}: pass an integer, 1 or more"):
            make_rig(shards)
    for share in (0, 1 / 64, 1.5, float("nan")):
        with pytest.raises(ValueError, match="hot_share is"):
            make_rig(hot_share=share)
    with pytest.raises(TypeError, match="hot_share is 'x': pass a share"):
        make_rig(hot_share="x")
    for most, error in ((-1, ValueError), ("x", TypeError), (1.5, TypeError)):
        with pytest.raises(error, match=f"hot_max is {most!r}: pass an integer, 0 or more"):
            make_rig(hot_share=0.5, hot_max=most)
    assert ("a" in rig.wheel, rig.wheel.stats()["keys"]) == (True, 1)
    assert rig.advance(1) == [("a", 1)]


def test_no_room_at_home(make_rig):
    """
    If a pending key is set while its home shard is full, the call is refused, and the key keeps its value and deadline.
    """
    rig = make_rig(1, max_pending=5)
    for number in range(5):
        rig.wheel.set(number, "stays", 5)
    rig.wheel.add_shard()
    at_home = [number for number in range(200, 400) if jump_hash(stable_hash(number), 2) == 1][:5]
    for number in at_home:
        rig.wheel.set(number, "there", 5)
    (moving,) = [number for number in range(5) if jump_hash(stable_hash(number), 2) == 1][:1]
    with pytest.raises(TooManyTimersError):
        rig.wheel.set(moving, "new", 1)
    assert rig.wheel.get(moving) == "stays"
    assert rig.advance(1) == []
    assert len(rig.advance(4.000_001)) == 10


def test_a_key_that_raises_is_delivered(make_rig):
    """
    If the hash of an expiring key raises, the key is still delivered, and the error is reported.
    """

    class Moody:
        """
        A key. If the test has enabled this, computing its hash raises.
        """

        is_broken = False

        def __hash__(self) -> int:
            if self.is_broken:
                raise LookupError
            return 5

    rig = make_rig()
    key = Moody()
    rig.wheel.set(key, "value", 1)
    key.is_broken = True
    rig.clock.advance(1)
    assert rig.expired == [(key, "value")]
    assert {type(error) for error in rig.errors} == {LookupError}


def test_a_hot_key_has_its_own_wheel(make_rig):
    """
    A key that gets most of the operations moves to a wheel of its own, and moves back when it is no longer hot.
    """
    rig = make_rig(2, hot_share=0.3, hot_max=2)
    for number in range(WINDOW):
        rig.wheel.set("hot", number, 5)
        rig.wheel.set(number % 500, number, 5)
    assert rig.wheel.stats()["hot"] == ["hot"]
    (own,) = rig.wheel._hot.values()
    assert "hot" in own
    assert len(own) == 1
    rig.wheel.check()
    assert ("hot", WINDOW - 1) in rig.advance(5)
    rig.wheel.set("hot", "cooling", 1_000)
    for number in range(8 * WINDOW):
        rig.wheel.set(number % 500, number, 5)
    assert rig.wheel.stats()["hot"] == []
    assert own.closed(), "the key is at home, with its value and its time"
    assert ("hot", "cooling") not in rig.advance(999.9)
    assert ("hot", "cooling") in rig.advance(0.2)
    assert rig.wheel.stats()["keys"] == 0


def test_a_hot_key_that_cannot_move_back(make_rig):
    """
    A hot key has its own wheel. If the key cannot move back to a full shard, this wheel is closed when the key expires.
    """
    rig = make_rig(1, hot_share=0.5, hot_max=1, max_pending=500)
    for number in range(WINDOW):
        rig.wheel.set("hot", number, 100)
    (own,) = rig.wheel._hot.values()
    for number in range(8 * WINDOW):
        rig.wheel.set(number % 500, number, 50)
    assert (rig.wheel.stats()["hot"], own.closed()) == ([], False)
    for number in range(WINDOW):
        rig.wheel.set(7, number, 50)
    # Until the key expires, its own wheel counts towards `hot_max`.
    assert rig.wheel.stats()["hot"] == []
    assert ("hot", WINDOW - 1) in rig.advance(100)
    assert own.closed()
    assert rig.wheel.stats()["wheels"] == 1


def test_the_number_of_hot_wheels_is_limited(make_rig):
    """
    If many keys become hot one after another, there are never more than `hot_max` wheels for hot keys.
    """
    rig = make_rig(2, hot_share=0.25, hot_max=2)
    for key in range(12):
        for number in range(2 * WINDOW):
            rig.wheel.set(key, number, 3600)
    assert rig.wheel.stats()["wheels"] <= 2 + 2
    assert len(rig.advance(3600.000_001)) == 12  # keys that changed their wheel may be nanoseconds late


def test_a_key_that_is_set_amid_a_drain(make_rig):
    """
    If a finalizer or a key's hash puts a key into the wheel during a drain, this key stays pending.
    """

    class Busy:
        """
        A key. If the test has enabled this, computing its hash puts another key into the wheel.
        """

        is_asked = False

        def __hash__(self) -> int:
            if self.is_asked:
                self.is_asked = False
                rig.wheel.set("other", 2, 1)
            return 5

    def on_expire(key: Any, _value: Any) -> None:
        if key is busy:
            busy.is_asked = True
            drained.extend(each.args for each in rig.wheel.drain())
        expired.append(key)

    drained: list[Any] = []
    expired: list[Any] = []
    rig = make_rig(2, on_expire=on_expire)
    busy = Busy()
    rig.wheel.set(busy, 0, 1)
    rig.wheel.set("key", 1, 5)
    rig.advance(1)
    assert (drained, rig.errors) == ([("key", 1)], [])
    rig.advance(10)
    assert expired == [busy, "other"]
    assert rig.wheel.stats()["keys"] == 0


@pytest.mark.parametrize("changes_its_shard", [False, True])
def test_a_key_that_expires_during_its_move(make_rig, changes_its_shard):
    """
    If a key becomes due while `move` moves it to another shard, it expires exactly once.
    """
    rig = make_rig(1)
    key = next(number for number in range(100) if jump_hash(stable_hash(number), 2) == 1)
    rig.wheel.set(key, "value", 1)
    if changes_its_shard:
        rig.wheel.add_shard()
    expire_before_cancels(rig, rig.wheel._shards[0], 1)
    was_moved = rig.wheel.move(key, 5)
    assert was_moved is (rig.expired == [])
    rig.advance(10)
    assert rig.expired == [(key, "value")]
    assert rig.wheel.stats()["keys"] == 0


def test_a_key_that_expires_while_it_cools(make_rig):
    """
    A hot key that becomes due while it moves from its own wheel back to a shard expires once.
    """
    rig = make_rig(2, hot_share=0.3, hot_max=1)
    for number in range(WINDOW):
        rig.wheel.set("hot", number, 50)
    expire_before_cancels(rig, rig.wheel._hot["hot"], 50)
    for number in range(8 * WINDOW):
        rig.wheel.set(number % 500, number, 5_000)
    assert rig.wheel.stats()["hot"] == []
    rig.advance(100)
    assert rig.expired == [("hot", WINDOW - 1)]


def expire_before_cancels(rig: Rig, shard: Any, delay: float) -> None:
    """
    Let *delay* seconds pass before each cancel on *shard*, so that a key can expire just before it is cancelled.
    """
    cancel = shard.cancel

    def late(key: Any) -> bool:
        rig.clock.advance(delay)
        return cancel(key)

    shard.cancel = late


def test_a_blocked_shard_holds_up_no_other():
    """
    While a callback blocks one shard, keys of other shards expire, and all keys can be set and cancelled.
    """
    begun, may_end, done = threading.Event(), threading.Event(), threading.Event()
    expired: list[Any] = []

    def on_expire(key: Any, value: Any) -> None:
        if value == "block":
            begun.set()
            may_end.wait(PATIENCE_S)
        expired.append((key, value))
        if len(expired) == 50:
            done.set()

    with ShardedWheel(2, on_expire=on_expire) as wheel:
        first = [number for number in range(500) if jump_hash(stable_hash(number), 2) == 0]
        second = [number for number in range(500) if jump_hash(stable_hash(number), 2) == 1]
        wheel.set(first[0], "block", 0)
        assert begun.wait(PATIENCE_S)
        for number in second[:50]:
            wheel.set(number, "free", 0)
        assert done.wait(PATIENCE_S)
        wheel.set(first[1], "later", 3_600)
        assert wheel.cancel(first[1])
        may_end.set()
    assert {value for _, value in expired[:50]} == {"free"}


class Load:
    """
    The load of four threads that set and cancel their own keys, and of a fifth thread that adds shards.

    Attributes:
        expired: For each key, the versions that have expired. The version grows with each call of `set`.
        early: The keys that expired early.
        last: The latest version of each key that was not cancelled afterwards.
    """

    def __init__(self) -> None:
        self.seed = random.randrange(2**32)
        self.expired: dict[int, list[int]] = defaultdict(list)
        self.early: list[int] = []
        self.last: dict[int, int] = {}
        self.wheel = ShardedWheel(1, on_expire=self._on_expire, hot_share=0.2)
        self._time = self.wheel._shards[0].time
        self._turns = threading.Semaphore(0)

    def run(self) -> None:
        """
        Run the threads, and wait until no key is pending or expiring. Then close the wheel.
        """
        workers = [threading.Thread(target=self._work, args=(number,)) for number in range(4)]
        growing = threading.Thread(target=self._grow)
        for thread in (growing, *workers):
            thread.start()
        for thread in (*workers, growing):
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in (*workers, growing)), self.seed
        settled = threading.Event()
        while self.wheel.stats()["keys"]:
            settled.wait(0.005)
        self.wheel.check()
        self.wheel.close()
        assert self.wheel.join(PATIENCE_S)

    def _on_expire(self, key: int, value: tuple[int, float]) -> None:
        version, deadline = value
        if self._time() < deadline:
            self.early.append(key)
        self.expired[key].append(version)

    def _work(self, number: int) -> None:
        rng = random.Random(self.seed + number)
        for version in range(2_500):
            if number == 0 and version % 200 == 0:
                self._turns.release()
            key = number * 1_000 + (0 if rng.random() < 0.4 else rng.randrange(60))
            delay = rng.random() / 300
            self.last[key] = version
            self.wheel.set(key, (version, self._time() + delay), delay)
            if rng.random() < 0.05 and self.wheel.cancel(key):
                self.last.pop(key)

    def _grow(self) -> None:
        while self.wheel.shards() < 12 and self._turns.acquire(timeout=PATIENCE_S):
            self.wheel.add_shard()


@pytest.mark.realtime
def test_shards_are_added_under_load():
    """
    If four threads set keys while shards are added, no key is lost, repeated, early or out of order.
    """
    load = Load()
    load.run()
    assert load.early == [], load.seed
    assert load.wheel.shards() > 1
    for key, versions in load.expired.items():
        assert versions == sorted(set(versions)), (load.seed, key)
    for key, version in load.last.items():
        assert load.expired[key][-1] == version, (load.seed, key)
