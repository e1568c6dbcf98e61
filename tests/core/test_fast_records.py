"""
`make_fast` makes objects that equal the objects made by calling the class.

The garbage collector ignores objects that cannot be in a cycle.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest

from tickwheel._core import make_fast
from tickwheel.jobs import model
from tickwheel.jobs.record import replace
from tickwheel.scheduler import SetRequest


class Thing:
    """
    An object that a weak reference can refer to.
    """


DEFAULT = "_fourth"[1:]
"""A default whose references are counted. Unlike some literals, it is not immortal."""


@dataclasses.dataclass(slots=True)
class Slow:
    """
    A class with two required fields, and two fields with a default.
    """

    first: Any
    second: Any
    third: Any = None
    fourth: Any = DEFAULT


@make_fast
@dataclasses.dataclass(slots=True)
class Fast:
    first: Any
    second: Any
    third: Any = None
    fourth: Any = DEFAULT


@make_fast
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    first: Any
    second: Any
    third: Any = None
    fourth: Any = DEFAULT


class Colour(enum.Enum):
    """
    An Enum with members.
    """

    RED = 1


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((1, 2), {}),
        ((1, 2, 3, 4), {}),
        ((1,), {"second": 2}),
        ((), {"fourth": 4, "second": 2, "first": 1}),
        ((), {"_first"[1:]: 1, "second": None}),
        ((), {}),
        ((1,), {}),
        ((1,), {"third": 3}),
        ((1, 2, 3, 4, 5), {}),
        ((1, 2), {"first": 1}),
        ((1, 2), {"fifth": 5}),
        ((1, 2), {"third": 3, "fifth": 5}),
    ],
)
def test_made_as_by_init(arguments, names):
    """
    With the same arguments, `make_fast` gives an object the same fields, or raises the same error, as `__init__`.
    """

    def outcome(kind):
        try:
            return dataclasses.astuple(kind(*arguments, **names))
        except TypeError as error:
            return str(error).replace(kind.__name__, "")

    assert outcome(Fast) == outcome(Slow) == outcome(Frozen)


def test_called_by_tuple_and_dict():
    """
    The name of a field may be any string object that equals it, whether the class or `replace` is called.
    """
    name = "_second"[1:]
    assert dataclasses.astuple(type.__call__(Fast, 1, **{name: 2})) == (1, 2, None, DEFAULT)
    assert dataclasses.replace(Fast(1, 2), third=3) == Fast(1, 2, 3)


def test_records_that_cannot_be_in_a_cycle_are_hidden():
    """
    The garbage collector does not see a frozen record of text, numbers, Enum members, or tuples of these.

    It also does not see a record that contains such records.
    """
    inner = Frozen("text", b"bytes")
    for harmless in ("text", 1, 1.5, None, b"bytes", True, Colour.RED, inner):
        assert not gc.is_tracked(Frozen(harmless, 2)), harmless
    pair = (1, int("2"))  # made at run time, because a constant is left out of collections
    gc.collect()  # this hides a tuple of numbers from the collector
    assert not gc.is_tracked(Frozen(pair, 2))
    for container in ([], {}, {1: 2}, ([],), Thing(), Frozen([], 1), Fast(1, 2), print, set(), lambda: None):
        assert gc.is_tracked(Frozen(container, 2)), container


def test_records_that_can_change_are_tracked():
    """
    The garbage collector tracks every record that is not frozen.

    Such a record may become part of a cycle later.
    """
    assert gc.is_tracked(Fast(1, 2))
    made = Fast(1, 2)
    made.third = made
    thing = made.fourth = Thing()
    gone = weakref.ref(thing)
    del made, thing
    gc.collect()
    assert gone() is None


def test_a_cycle_through_a_field_is_collected():
    """
    A record that contains itself in its payload is freed, whether it is frozen or not.
    """
    for kind in (Fast, Frozen):
        payload: dict[str, Any] = {"thing": Thing()}
        gone = weakref.ref(payload["thing"])
        payload["record"] = kind("key", payload)
        del payload
        gc.collect()
        assert gone() is None, kind


def test_frozen_is_frozen():
    """
    A field of a frozen record can be neither assigned nor deleted.

    So the record's hash stays the same.
    """
    made = Frozen(1, 2)
    table = {made: "value"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.first = 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.first
    assert table[Frozen(1, 2)] == "value"


def test_the_schedulers_records():
    """
    Every record of the scheduler's model is frozen.

    A request that contains itself in its payload is freed.
    """
    for name in model.__all__:
        kind = getattr(model, name)
        if dataclasses.is_dataclass(kind):
            assert kind.__dataclass_params__.frozen, name
    request = SetRequest("key", payload={"thing": Thing()})
    gone = weakref.ref(request.payload["thing"])
    request.payload["self"] = request
    del request
    gc.collect()
    assert gone() is None


def test_copies_pickles_and_subclasses():
    """
    Code that makes objects without calling the class works as usual: copies, pickles and subclasses.
    """

    class Child(Fast):
        def __init__(self):
            super().__init__("of the child", 2)

    made = Fast([1], 2)
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301  our own
    assert copy.deepcopy(made) == made
    assert Child().first == "of the child"
    assert Child().__dict__ == {}


def test_references_are_counted():
    """
    After valid and invalid calls, no reference is left over or missing.
    """
    thing, default = Thing(), DEFAULT
    gc.collect()
    wrong = [((thing,), {}), ((thing, thing), {"first": thing}), ((thing, 2), {"fifth": thing})]
    before = sys.getrefcount(thing), sys.getrefcount(default)
    for _ in range(1_000):
        Fast(thing, thing, third=thing)
        for arguments, names in wrong:
            with pytest.raises(TypeError):
                Fast(*arguments, **names)
    del arguments, names
    gc.collect()
    assert (sys.getrefcount(thing), sys.getrefcount(default)) == before


def plain(cls):
    """
    Make *cls* a dataclass without slots.
    """
    return dataclasses.dataclass(cls)


def slotted(cls):
    """
    Make *cls* a dataclass with slots.
    """
    return dataclasses.dataclass(slots=True)(cls)


class Made:
    """
    A dataclass with a field that has a default factory.
    """

    field: list = dataclasses.field(default_factory=list)


class Checked:
    """
    A class that checks its arguments.
    """

    field: int = 0

    def __post_init__(self):
        pass


class Loose:
    """
    A class whose objects have a `__dict__`, unless `slotted` is applied to the class.
    """

    field: int = 0


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (slotted(Made), "a field is made, not given"),
        (slotted(Checked), "it has a __post_init__"),
        (plain(Loose), "its objects are not the fields that they are given, in slots"),
        (int, "must be called with a dataclass type"),
    ],
)
def test_classes_that_are_refused(cls, why):
    """
    `make_fast` refuses a class whose objects need more than an assignment of the arguments to the slots.
    """
    with pytest.raises(TypeError, match=why):
        make_fast(cls)


def test_replace_copies_with_changes():
    """
    A copy has the changed fields and shares all other fields, whichever fields were changed before.
    """
    job = model.Job("a", 1, 2, b"3", handler="b")
    for changes in ({"due_at": 5}, {"attempt": 1, "key": "c"}, {"key": "c", "attempt": 2}, {}):
        assert replace(job, **changes) == dataclasses.replace(job, **changes)
    assert job == model.Job("a", 1, 2, b"3", handler="b")
    with pytest.raises(TypeError, match="Job has no field 'colour'"):
        replace(job, colour="red")
