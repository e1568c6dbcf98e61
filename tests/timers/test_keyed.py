"""
Keyed timers: at most one timer per key.
"""

from __future__ import annotations

import random
import threading

import pytest

from tickwheel import ClosedError, InvalidDelayError, Pending, TooManyTimersError


def test_expires_with_its_value(make_rig):
    """
    A key expires once, at its time, with its value.
    """
    rig = make_rig()
    rig.wheel.set("a", 1, 2.0)
    assert (rig.wheel.get("a"), "a" in rig.wheel, len(rig.wheel)) == (1, True, 1)
    assert rig.advance(1.999_999_999) == []
    assert rig.advance(0.000_000_001) == [("a", 1)]
    assert (rig.wheel.get("a"), "a" in rig.wheel, len(rig.wheel)) == (None, False, 0)
    assert rig.advance(100) == []


def test_set_again_moves_and_replaces(make_rig):
    """
    Setting a pending key moves its timer to an earlier or later time, and replaces its value. The timer fires once.
    """
    rig = make_rig()
    for value, delay in ((1, 2), (2, 5), (3, 1), (4, 3)):
        rig.wheel.set("a", value, delay)
    assert len(rig.wheel) == 1
    assert rig.wheel.get("a") == 4
    assert rig.advance(2.9) == []
    assert rig.advance(10) == [("a", 4)]


def test_move_keeps_the_value(make_rig):
    """
    A move changes only the time of a key. If the key is not pending, the move returns False.
    """
    rig = make_rig()
    rig.wheel.set("a", 1, 5)
    assert rig.wheel.move("a", 1)
    assert rig.advance(1) == [("a", 1)]
    assert not rig.wheel.move("a", 1)
    assert not rig.wheel.move("unknown", 1)


@pytest.mark.parametrize("elapsed", [0, 3, 7])
@pytest.mark.parametrize("delay", [0.5, 1, 4, 10, 11])
@pytest.mark.parametrize("moved", [0, 0.25, 1, 4, 10, 100])
def test_a_move_from_any_position(make_rig, elapsed, delay, moved):
    """
    Wherever the wheel's pointer is, a key that is moved expires once, one delay after the move.
    """
    rig = make_rig()
    rig.clock.advance(elapsed)
    rig.wheel.set("a", 1, delay)
    rig.clock.advance(delay / 2)
    assert rig.wheel.move("a", moved)
    if moved:
        assert rig.advance(moved - 1e-6) == []
    assert rig.advance(1e-6) == [("a", 1)]
    assert rig.advance(200) == []


def test_cancel(make_rig):
    """
    A cancelled key never expires, and only the first cancel returns True.
    """
    rig = make_rig()
    rig.wheel.set("a", 1, 1)
    assert [rig.wheel.cancel("a") for _ in range(2)] == [True, False]
    assert not rig.wheel.cancel("unknown")
    assert rig.advance(10) == []
    rig.wheel.set("a", 2, 1)
    assert rig.advance(1) == [("a", 2)]


def test_keys_and_timers_side_by_side(make_rig):
    """
    Timers with and without keys fire together in the order of their deadlines.
    """
    rig = make_rig()
    rig.wheel.set("a", 1, 1)
    rig.wheel.call_later(1, rig.expired.append, "plain")
    rig.wheel.set("b", 2, 1)
    assert rig.advance(1) == [("a", 1), "plain", ("b", 2)]


def test_set_again_while_it_expires(make_rig):
    """
    While a key expires, `move()` and `cancel()` of this key return False, and `set()` makes a new timer.
    """
    answers = []

    def on_expire(key, value):
        answers.append((rig.wheel.get(key), rig.wheel.move(key, 1), rig.wheel.cancel(key)))
        rig.expired.append((key, value))
        if value < 3:
            rig.wheel.set(key, value + 1, 1)

    rig = make_rig(on_expire=on_expire)
    rig.wheel.set("a", 1, 1)
    assert rig.advance(10) == [("a", 1), ("a", 2), ("a", 3)]
    assert answers == [(None, False, False)] * 3


def test_siblings_in_on_expire(make_rig):
    """
    While `on_expire` runs for one key, a second key with the same deadline can be moved, replaced and cancelled.
    """

    def on_expire(key, value):
        rig.expired.append((key, value))
        if key == "a":
            assert rig.wheel.move("b", 1)
            assert rig.wheel.cancel("c")
            rig.wheel.set("d", "new", 0)

    rig = make_rig(on_expire=on_expire)
    for key in "abcde":
        rig.wheel.set(key, key, 1)
    assert rig.advance(1) == [("a", "a"), ("e", "e"), ("d", "new")]
    assert rig.advance(1) == [("b", "b")]


def test_drain(make_rig):
    """
    A drain returns keys and plain timers together in order, with the values and remaining times of the keys.
    """
    rig = make_rig()
    rig.wheel.set("late", 1, 9)
    timer = rig.wheel.call_later(5, print, "plain")
    rig.wheel.set("soon", 2, 1)
    now = rig.wheel.time()
    first, second, third = rig.wheel.drain()
    assert (first.callback, first.args, round(first.remaining, 6)) == (None, ("soon", 2), 1)
    assert second == Pending(print, ("plain",), timer.when(), second.remaining)
    assert (third.args, third.deadline) == (("late", 1), now + 9)
    assert rig.wheel.drain() == []
    assert (rig.wheel.get("late"), rig.wheel.move("late", 1), rig.wheel.cancel("soon")) == (None, False, False)
    rig.wheel.set("late", 3, 1)
    assert rig.advance(20) == [("late", 3)]


def test_drain_to_a_function(make_rig):
    """
    A function that is passed to `drain` gets each key and value in order, and may set a key again.
    """
    rig = make_rig()
    got = []

    def again(key, value):
        got.append((key, value))
        rig.wheel.set(key, value * 10, 1)

    rig.wheel.set("b", 2, 2)
    rig.wheel.call_later(1, print)
    rig.wheel.set("a", 1, 1)
    assert len(rig.wheel.drain(again)) == 3
    assert got == [("a", 1), ("b", 2)]
    assert rig.advance(1) == [("a", 10), ("b", 20)]


def test_drain_to_a_function_that_raises(make_rig):
    """
    If the function that is passed to `drain` raises, it is still called for each key. Its errors are raised as a group.
    """
    rig = make_rig()
    for key in "abc":
        rig.wheel.set(key, None, 1)
    got = []

    def fail(key, _):
        got.append(key)
        raise LookupError(key)

    with pytest.raises(ExceptionGroup) as caught:
        rig.wheel.drain(fail)
    assert got == ["a", "b", "c"]
    assert [str(each) for each in caught.value.exceptions] == ["a", "b", "c"]
    assert len(rig.wheel) == 0


def test_drain_in_on_expire(make_rig):
    """
    A drain inside `on_expire` returns all keys except the one that is expiring.
    """
    drained = []
    rig = make_rig(on_expire=lambda *_: drained.extend(each.args for each in rig.wheel.drain()))
    for key in "abc":
        rig.wheel.set(key, key, 1)
    rig.clock.advance(1)
    assert drained == [("b", "b"), ("c", "c")]


def test_close(make_rig):
    """
    `close` also returns the keyed timers.

    On a closed wheel `set` raises, and the other methods have no effect.
    """
    rig = make_rig()
    rig.wheel.set("a", 1, 1)
    assert [each.args for each in rig.wheel.close()] == [("a", 1)]
    with pytest.raises(ClosedError):
        rig.wheel.set("a", 1, 1)
    assert (rig.wheel.get("a"), rig.wheel.move("a", 1), rig.wheel.cancel("a")) == (None, False, False)
    assert rig.wheel.close() == []


def test_without_on_expire(make_rig):
    """
    A wheel without `on_expire` refuses to set a key, and the error names the remedy.
    """
    rig = make_rig(on_expire=None)
    with pytest.raises(TypeError, match="on_expire"):
        rig.wheel.set("a", 1, 1)
    assert len(rig.wheel) == 0


@pytest.mark.parametrize("delay", [float("nan"), None, "1"])
def test_a_bad_delay(make_rig, delay):
    """
    An invalid delay is refused and changes nothing, whether the key is pending or not.
    """
    rig = make_rig()
    error = InvalidDelayError if isinstance(delay, float) else TypeError
    for is_pending in (False, True):
        with pytest.raises(error, match=f"delay is {delay!r}"):
            rig.wheel.set("a", "new", delay)
        assert len(rig.wheel) == is_pending
        with pytest.raises(error, match=f"delay is {delay!r}"):
            rig.wheel.move("a", delay)
        rig.wheel.set("a", "old", 1)
        with pytest.raises(error):
            rig.wheel.move("a", delay)
    assert rig.advance(1) == [("a", "old")]


def test_a_new_key_at_the_limit_is_refused(make_rig):
    """
    If `max_pending` timers are pending, a new key is refused, but a pending key can be set again.
    """
    rig = make_rig(max_pending=1)
    rig.wheel.set("a", 1, 1)
    with pytest.raises(TooManyTimersError):
        rig.wheel.set("b", 2, 1)
    assert "b" not in rig.wheel
    rig.wheel.set("a", 3, 1)
    assert rig.advance(1) == [("a", 3)]
    rig.wheel.set("b", 2, 1)
    assert rig.advance(1) == [("b", 2)]


def test_an_error_in_on_expire(make_rig):
    """
    An error in `on_expire` goes to `on_error`, and the other keys expire.
    """

    def on_expire(key, value):
        rig.expired.append((key, value))
        raise ValueError(key)

    rig = make_rig(on_expire=on_expire)
    rig.wheel.set("a", 1, 1)
    rig.wheel.set("b", 2, 1)
    assert rig.advance(1) == [("a", 1), ("b", 2)]
    assert [str(error) for error in rig.errors] == ["a", "b"]
    assert "a" not in rig.wheel


def test_a_move_that_overtakes_a_firing(make_rig):
    """
    If a key is set or moved just before another thread fires it, it expires once, at its new time.
    """
    for verb in ("set", "move", "cancel"):
        rig = make_rig()
        rig.wheel.set("a", 1, 1)
        lock = rig.wheel._keyed._lock
        with lock:
            firing = threading.Thread(target=rig.clock.advance, args=(1,))
            firing.start()
            while not rig.wheel.stats()["fires"]:
                firing.join(0.001)
            answer = {
                "set": lambda rig=rig: rig.wheel.set("a", 2, 1) is None,
                "move": lambda rig=rig: rig.wheel.move("a", 1),
                "cancel": lambda rig=rig: rig.wheel.cancel("a"),
            }[verb]()
        firing.join()
        assert answer
        assert rig.expired == []
        assert rig.advance(5) == {"set": [("a", 2)], "move": [("a", 1)], "cancel": []}[verb]


def test_against_a_dictionary(make_rig):
    """
    Thousands of random operations give the same results as a dictionary of deadlines.
    """
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    rig = make_rig()
    model: dict[str, tuple[int, int, int]] = {}
    expected: list[tuple[str, int]] = []
    now = 0
    for step in range(5_000):
        key = rng.choice("abcdefgh")
        delay = rng.randrange(8)
        verb = rng.choice(("set", "set", "move", "cancel", "get", "advance", "drain" if rng.random() < 0.02 else "get"))
        if verb == "set":
            rig.wheel.set(key, step, delay / 1e9)
            model[key] = (now + delay, step, step)
        elif verb == "move":
            assert rig.wheel.move(key, delay / 1e9) == (key in model), seed
            if key in model:
                model[key] = (now + delay, step, model[key][2])
        elif verb == "cancel":
            assert rig.wheel.cancel(key) == (model.pop(key, None) is not None), seed
        elif verb == "get":
            assert rig.wheel.get(key) == model.get(key, (0, 0, None))[2], seed
        elif verb == "drain":
            order = sorted(model, key=model.__getitem__)
            assert [each.args for each in rig.wheel.drain()] == [(each, model[each][2]) for each in order], seed
            model.clear()
        else:
            now += delay
            rig.clock.advance(delay / 1e9)
            due = sorted((each for each in model if model[each][0] <= now), key=model.__getitem__)
            expected += [(each, model.pop(each)[2]) for each in due]
        assert rig.expired == expected, seed
        assert len(rig.wheel) == len(model), seed
