"""
What `make_fast` makes is what the class makes, only faster, and unseen by the garbage collector.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest

from tickwheel._core import make_fast


class Thing:
    """
    Something that a weak reference can point to.
    """


DEFAULT = "_fourth"[1:]
"""Not immortal, as what stands in the source may be."""


@dataclasses.dataclass(slots=True)
class Slow:
    """
    Two fields without a default and two with.
    """

    first: Any
    second: Any
    third: Any = None
    fourth: Any = DEFAULT


@make_fast
@dataclasses.dataclass(slots=True)
class Fast:
    """
    The same.
    """

    first: Any
    second: Any
    third: Any = None
    fourth: Any = DEFAULT


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
    The same arguments make the same fields, or the same error.
    """

    def outcome(kind):
        try:
            return dataclasses.astuple(kind(*arguments, **names))
        except TypeError as error:
            return str(error).replace(kind.__name__, "")

    assert outcome(Fast) == outcome(Slow)


def test_called_by_tuple_and_dict():
    """
    However it is called, the name of a field may be another string object that is equal.
    """
    name = "_second"[1:]
    assert dataclasses.astuple(type.__call__(Fast, 1, **{name: 2})) == (1, 2, None, DEFAULT)
    assert dataclasses.replace(Fast(1, 2), third=3) == Fast(1, 2, 3)


def test_unseen_by_the_collector():
    """
    The collector neither walks what is made fast, nor misses what only it keeps alive.
    """
    thing = Thing()
    kept = weakref.ref(thing)
    made = Fast([thing], 2)
    del thing
    gc.collect()
    assert not gc.is_tracked(made)
    assert kept() is not None
    del made
    assert kept() is None


def test_copies_pickles_and_subclasses():
    """
    What does not call the class makes its objects as ever.
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
    Neither good nor bad calls keep a reference too many, or drop one.
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
    Make a dataclass without slots.
    """
    return dataclasses.dataclass(cls)


def slotted(cls):
    """
    Make a dataclass with slots.
    """
    return dataclasses.dataclass(slots=True)(cls)


class Made:
    """
    Has a field that is made.
    """

    field: list = dataclasses.field(default_factory=list)


class Checked:
    """
    Looks at what it is given.
    """

    field: int = 0

    def __post_init__(self):
        """
        Look.
        """


class Loose:
    """
    Has a dictionary, where it is not slotted.
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
def test_refused(cls, why):
    """
    A class whose objects are more than the fields they are given is refused.
    """
    with pytest.raises(TypeError, match=why):
        make_fast(cls)
