from __future__ import annotations

import contextlib
import math
from array import array
from collections.abc import Coroutine, Iterable
from typing import Any

from tickwheel.errors import ClosedError, InvalidDelayError, TooManyTimersError
from tickwheel.testing.engine_suite._base import EngineTests, Rig, refused

__all__ = ["BulkTests"]


class BulkTests(EngineTests):
    def bulk(self, delays: Iterable[float], max_pending: int | None = None) -> tuple[Rig, array[int], list[int]]:
        """
        Return a rig, the ids of timers with *delays*, and a list that collects the ids of expired timers.
        """
        rig = self.rig(max_pending=max_pending)
        expired: list[int] = []

        def expire(ids: array[int]) -> None:
            assert type(ids) is array
            assert ids.typecode == "q"
            expired.extend(ids)

        return rig, rig.engine.call_later_many(delays, expire), expired

    def test_each_expires_once_in_order(self) -> None:
        rig, ids, expired = self.bulk([3e-9, 1e-9, 2e-9, 1e-9, 0])
        assert len(set(ids)) == len(rig.engine) == 5
        assert all(type(name) is int and name > 0 for name in ids)
        assert rig.engine.fire_due() == 1
        assert expired == [ids[4]]
        for at in (1, 2, 3, 10):
            rig.clock.jump(max(rig.start + at - rig.clock.monotonic_ns(), 0) / 1e9)
            rig.engine.fire_due()
            rig.engine.check()
        assert expired == [ids[4], ids[1], ids[3], ids[2], ids[0]]
        assert len(rig.engine) == 0

    def test_any_iterable(self) -> None:
        for delays in ([1.0, 2.0], (delay for delay in (1, 2)), array("d", [1, 2]), array("q", [1, 2]), range(1, 3)):
            rig, ids, expired = self.bulk(delays)
            rig.clock.jump(5)
            rig.engine.fire_due()
            assert expired == list(ids)
            assert len(ids) == 2
        rig, ids, _ = self.bulk([])
        assert (list(ids), len(rig.engine), rig.engine.arm()) == ([], 0, None)

    def test_among_others(self) -> None:
        rig = self.rig()
        rig.set("a", 10)
        rig.engine.call_later_many([10e-9, 11e-9], lambda ids: rig.log.extend("m" * len(ids)))
        rig.set("b", 10)
        rig.set("c", 11)
        rig.clock.jump(1)
        assert rig.engine.fire_due() == 5
        assert rig.log == ["a", "m", "b", "m", "c"]

    def test_slack(self) -> None:
        rig = self.rig()
        loose: list[int] = []
        delays = [1e-9, 20e-9, 40e-9, math.inf]
        ids = rig.engine.call_later_many(delays, loose.extend, slack=64e-9)
        alone = [rig.engine.call_later(delay, print, slack=64e-9) for delay in delays]
        remaining = [each.remaining for each in rig.engine.pending()]
        assert remaining[0::2] == remaining[1::2]
        assert remaining[2] >= 20e-9
        assert all(timer.cancel() for timer in alone)
        exact = rig.engine.call_later_many([1e-9], rig.note, slack=-1)
        rig.clock.jump(1e-9)
        rig.engine.fire_due()
        assert rig.notes == [array("q", exact)]
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert sorted(loose) == list(ids[:3])
        wrong: tuple[tuple[type[Exception], Any], ...] = (
            (InvalidDelayError, math.nan),
            (TypeError, None),
            (TypeError, "1"),
        )
        for error, slack in wrong:
            with refused(error, f"slack is {slack!r}"):
                rig.engine.call_later_many([1], print, slack=slack)
        assert len(rig.engine) == 1

    def test_cancel_many(self) -> None:
        rig, ids, expired = self.bulk([1e-9] * 5)
        handle = rig.set("a", 1)
        assert rig.engine.cancel_many([ids[0], handle, ids[3], handle, ids[0], 2**62, 0]) == 3
        assert rig.engine.cancel_many(array("q", [ids[0], ids[1]])) == 1
        assert rig.engine.cancel_many([]) == 0
        for never in (-1, -(2**63), 2**63, 2**64 - 1, 2**64, -(10**30)):
            assert rig.engine.cancel_many([never]) == rig.engine.move_many([never], 1) == 0
        assert rig.engine.cancel_many(array("q", [-1, -(2**63)])) == 0
        rig.engine.check()
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert expired == [ids[2], ids[4]]
        assert rig.engine.cancel_many(ids) == 0
        assert handle.cancelled()

    def test_move_many(self) -> None:
        rig, ids, expired = self.bulk([1e-9] * 4)
        handle = rig.set("a", 1)
        rig.engine.cancel_many([ids[0]])
        assert rig.engine.move_many([*ids, handle], 5e-9) == 4
        assert rig.engine.move_many(array("q", ids[1:3]), array("d", [9e-9, 7e-9])) == 2
        assert rig.turn(4) == []
        rig.clock.jump(1e-9)
        rig.engine.fire_due()
        assert (expired, rig.log) == ([ids[3]], ["a"])
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert expired == [ids[3], ids[2], ids[1]]
        assert rig.engine.move_many(ids, 1) == 0

    def test_the_driver_is_told_once(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = lambda: calls.append("calls")
        rig.engine.arm()
        ids = rig.engine.call_later_many([5, 3, 4, math.inf], print)
        assert calls == ["calls"]
        rig.engine.arm()
        rig.engine.move_many(ids, [6, 7, 8, 9])
        rig.engine.call_later_many([10, 11], print)
        assert calls == ["calls"]
        rig.engine.move_many(ids, 1)
        assert calls == ["calls"] * 2

    def test_all_or_none(self) -> None:
        rig, ids, expired = self.bulk([1e-9] * 2, max_pending=4)
        wrong: tuple[tuple[type[Exception], Any, str], ...] = (
            (InvalidDelayError, [1, math.nan], "delay is nan"),
            (InvalidDelayError, array("d", [1, math.nan]), "delay is nan"),
            (TypeError, [1, None], "delay is None"),
            (TypeError, [1, "2"], "delay is '2'"),
            (TypeError, 5, ""),
        )
        for error, delays, text in wrong:
            with refused(error, text):
                rig.engine.call_later_many(delays, print)
        for error, delays, text in wrong[:4]:
            with refused(error, text):
                rig.engine.move_many(ids, delays)
        with refused(TooManyTimersError, "4 timers"):
            rig.engine.call_later_many([1] * 3, print)
        with refused(TypeError, "callback is None"):
            rig.engine.call_later_many([1], None)  # type: ignore[arg-type]
        with refused(ValueError, "3 delays for 2 timers"):
            rig.engine.move_many(ids, [1, 2, 3])
        with refused(TypeError, "'a'"):
            rig.engine.cancel_many([ids[0], "a"])
        with refused(TypeError, "None"):
            rig.engine.move_many([ids[0], None], 1)
        rig.engine.check()
        assert (len(rig.engine), rig.engine.stats()["sets"], rig.engine.stats()["moves"]) == (2, 2, 0)
        rig.engine.call_later_many([2e-9] * 2, expired.extend)
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert len(expired) == 4
        rig.engine.close()
        with refused(ClosedError):
            rig.engine.call_later_many([1], print)

    def test_one_delay_for_all(self) -> None:
        class Failing:
            def __float__(self) -> float:
                raise LookupError("no length")

        rig = self.rig()
        timer = rig.engine.call_later(5, print)
        for huge, when in ((10**400, math.inf), (-(10**400), rig.when(0))):
            assert rig.engine.move_many([timer], huge) == 1
            assert timer.when() == when
        with refused(LookupError, "no length"):
            rig.engine.move_many([timer], Failing())  # type: ignore[arg-type]
        texts: tuple[Any, ...] = (b"1", "1", bytearray(b"1"))
        for text in texts:
            with refused(TypeError, f"delay is {text!r}"):
                rig.engine.move_many([timer], text)
            with refused(TypeError, f"delays is {text!r}"):
                rig.engine.call_later_many(text, print)
        with refused(TypeError, "delay is None"):
            rig.engine.move_many([timer], None)  # type: ignore[arg-type]
        assert (len(rig.engine), timer.when()) == (1, rig.when(0))

    def test_drained_and_errors(self) -> None:
        rig = self.rig()
        (name,) = rig.engine.call_later_many([5], print)
        (drained,) = rig.engine.drain()
        assert (drained.callback, drained.args, round(drained.remaining, 6)) == (print, (name,), 5)

        def fail(ids: array[int]) -> None:
            rig.note(*ids)
            raise LookupError

        ids = rig.engine.call_later_many([1e-9, 3e-9], fail)
        rig.set("between", 2)
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert rig.notes == list(ids)
        assert rig.log == ["between"]
        sources: list[object] = [source for error, source in rig.errors if type(error) is LookupError]
        assert sources == [fail] * 2

    def test_coroutine(self) -> None:
        """
        A coroutine from a bulk callback goes to `on_coroutine`, with the callback.
        """
        rig = self.rig()
        received: list[object] = []

        async def finish(ids: array[int]) -> None:
            rig.note(*ids)

        def receive(coroutine: Coroutine[Any, Any, Any], source: object) -> None:
            received.append(source)
            with contextlib.suppress(StopIteration):
                coroutine.send(None)

        rig.engine.on_coroutine = receive
        ids = rig.engine.call_later_many([1e-9, 3e-9], finish)
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert rig.notes == list(ids)
        assert set(received) == {finish}

    def test_inside_a_callback(self) -> None:
        rig = self.rig()
        expired: list[int] = []

        def act() -> None:
            assert rig.engine.cancel_many(ids[:2]) == 2
            assert rig.engine.move_many([ids[2]], 5e-9) == 1
            rig.engine.call_later_many([0], lambda _: rig.log.append("new"))

        rig.set("a", 10, act)
        ids = rig.engine.call_later_many([10e-9] * 4, expired.extend)
        rig.clock.jump(10e-9)
        assert rig.engine.fire_due() == 2
        assert expired == [ids[3]]
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert rig.log == ["a", "new"]
        assert expired == [ids[3], ids[2]]
