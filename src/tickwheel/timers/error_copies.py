"""
Internal: copies of one error for several waiters. A shared error's traceback would collect the frames of all waiters.
"""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any, Final, TypeVar

__all__ = ["copy_error"]

_E = TypeVar("_E", bound=BaseException)

_HEAP_TYPE: Final = 1 << 9
"""Flag of a class that was made by a class statement (Py_TPFLAGS_HEAPTYPE)."""
_RAISED: Final = frozenset({
    "__cause__", "__context__", "__dict__", "__suppress_context__", "__traceback__", "__weakref__", "args",
})  # fmt: skip
"""Attributes that are not copied, because a raise or `copy_error` itself sets them."""
_ABSENT: Final = object()


def copy_error(error: _E, traceback: TracebackType | None, outer: BaseException | None = None) -> _E:
    """
    Return a copy of *error* that has its own *traceback*.

    The copy has the same type, arguments and attributes. `__init__` and `__new__` of the type are not called. If no
    equal copy can be made, the result is *error* itself, with *traceback*. *outer* is the error that the caller was
    already handling when *error* was raised. The copy's chain of causes and contexts stops before *outer*.
    """
    twin = _copy_of(error)
    if twin is None:
        return error.with_traceback(traceback)
    _link(twin, error, outer)
    return twin.with_traceback(traceback)


def _copy_of(error: _E) -> _E | None:
    """
    Return a copy of *error*, or None if an equal copy cannot be made.
    """
    kind = type(error)
    base: Any = kind
    while base.__flags__ & _HEAP_TYPE:
        base = base.__base__
    if base.__module__ != "builtins":  # an extension type, which may have hidden state
        return None
    try:
        twin: _E = base.__new__(kind, *error.args)
        twin.args = error.args
        own = getattr(error, "__dict__", {})
        twin.__dict__.update(own)
        if isinstance(own.get("__notes__"), list):
            twin.__dict__["__notes__"] = list(own["__notes__"])
        for descriptor in _descriptors(kind):
            value = _value(descriptor, error)
            if _comparable(value) != _comparable(_value(descriptor, twin)) and value is not _ABSENT:
                descriptor.__set__(twin, value)
        is_equal = _state(twin) == _state(error)
    except Exception:  # noqa: BLE001  a type that refuses any of this is not copied
        return None
    return twin if type(twin) is kind and is_equal else None


def _descriptors(kind: type[BaseException]) -> list[Any]:
    return [
        member
        for each in kind.__mro__
        for name, member in vars(each).items()
        if isinstance(member, GetSetDescriptorType | MemberDescriptorType) and name not in _RAISED
    ]


def _value(descriptor: Any, error: BaseException) -> Any:
    try:
        return descriptor.__get__(error)
    except AttributeError:
        return _ABSENT


def _state(error: BaseException) -> list[Any]:
    own = [(name, value) for name, value in vars(error).items() if name != "__notes__"]
    shown = [_value(descriptor, error) for descriptor in _descriptors(type(error))]
    notes = getattr(error, "__notes__", None)
    return [
        *map(_comparable, error.args),
        *((name, _comparable(value)) for name, value in own),
        *map(_comparable, shown),
        notes,
    ]


def _comparable(value: Any) -> Any:
    """
    Return *value* if it is an int or a str; otherwise its id, or the ids of a tuple's items.
    """
    if type(value) in {int, str}:
        return value
    return tuple(map(id, value)) if type(value) is tuple else id(value)


def _link(twin: BaseException, error: BaseException, outer: BaseException | None) -> None:
    twin.__cause__ = _before(error.__cause__, outer)
    twin.__context__ = _before(error.__context__, outer)
    twin.__suppress_context__ = error.__suppress_context__


def _before(error: BaseException | None, outer: BaseException | None) -> BaseException | None:
    """
    Return *error*, or a copy of it, with a chain of causes and contexts that stops before *outer*.
    """
    if error is None or error is outer:
        return None
    if outer is None or not _leads_to(error, outer):
        return error
    twin = _copy_of(error)
    if twin is not None:
        twin.__traceback__ = error.__traceback__
        _link(twin, error, outer)
    return twin


def _leads_to(error: BaseException, outer: BaseException) -> bool:
    todo, seen = [error], set()
    while todo:
        each = todo.pop()
        if each is outer:
            return True
        if id(each) not in seen:
            seen.add(id(each))
            todo += [link for link in (each.__cause__, each.__context__) if link is not None]
    return False
