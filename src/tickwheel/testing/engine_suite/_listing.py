from __future__ import annotations

import math
from contextvars import copy_context

from tickwheel.testing.engine_suite._base import EngineTests, refused

__all__ = ["ListingTests"]


class ListingTests(EngineTests):
    def test_pending_is_listed_in_order(self) -> None:
        rig = self.rig()
        late = rig.engine.call_at(rig.when(50), print, "late")
        never = rig.engine.call_later(math.inf, print, "never")
        first = rig.engine.call_at(rig.when(7), print, "first", 1)
        second = rig.engine.call_at(rig.when(7), print)
        (number,) = rig.engine.call_later_many([9e-9], rig.note)
        listed = rig.engine.pending()
        assert [each.timer for each in listed] == [first, second, None, late, never]
        assert [each.args for each in listed] == [("first", 1), (), (number,), ("late",), ("never",)]
        assert {each.callback for each in listed if each.timer is not None} == {print}
        assert listed[0].deadline == rig.when(7)
        assert [round(each.remaining * 1e9) for each in listed[:-1]] == [7, 7, 9, 50]
        assert listed[-1].remaining == math.inf
        for limit in range(6):
            assert rig.engine.pending(limit) == listed[:limit]
        second.restart(1)
        assert [each.timer for each in rig.engine.pending(3)] == [first, None, late]
        late.cancel()
        assert len(rig.engine.pending()) == len(rig.engine) == 4
        rig.clock.jump(60e-9)
        rig.engine.fire_due()
        assert [each.timer for each in rig.engine.pending()] == [second, never]

    def test_a_limit_is_a_count(self) -> None:
        rig = self.rig()
        with refused(ValueError, "-1"):
            rig.engine.pending(-1)
        with refused(TypeError, "1.5"):
            rig.engine.pending(1.5)  # type: ignore[arg-type]

    def test_a_handle_says_what_it_calls(self) -> None:
        rig = self.rig()
        plain = rig.engine.call_later(0, rig.notes.append, "x")
        within = rig.engine.call_later(0, rig.notes.append, "y", context=copy_context())
        for timer, word in ((plain, "x"), (within, "y")):
            assert (timer.callback, timer.args) == (rig.notes.append, (word,))
            assert "append" in repr(timer)
        assert [each.args for each in rig.engine.pending()] == [("x",), ("y",)]
        plain.cancel()
        rig.engine.fire_due()
        for timer in (plain, within):
            assert (timer.callback, timer.args) == (None, ())
        assert rig.notes == ["y"]
        rig.engine.call_later(1, print, 1, context=copy_context())
        (drained,) = rig.engine.drain()
        assert (drained.callback, drained.args, drained.timer) == (print, (1,), None)

    def test_listing_changes_nothing(self) -> None:
        rig = self.rig()
        got: list[int] = []
        ids = rig.engine.call_later_many([1e-9] * 3, got.extend)
        rig.set("a", 1)
        rig.engine.pending(2)
        rig.engine.check()
        rig.clock.jump(1e-9)
        rig.engine.fire_due()
        assert rig.log == ["a"]
        assert got == list(ids)
