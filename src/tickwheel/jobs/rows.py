"""
Converts a job to a row of `columns.ALL` and back, for every store on a server or in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from tickwheel.jobs.columns import ALL, NAMES, PLAIN
from tickwheel.jobs.model import Job, State

__all__ = [
    "ASIDE",
    "CODES",
    "PAUSED",
    "PLACE",
    "code_of",
    "in_int64",
    "is_default_but",
    "is_identical_but",
    "is_plain",
    "is_same_but",
    "job_of",
    "row_of",
    "successor",
    "with_other",
]

CODES: Final = {State.PENDING: 0, State.RUNNING: 1, State.DEAD: 2}
ASIDE: Final = 3
"""Stored code of a pending job that is set aside because no owner can run it."""
PAUSED: Final = 6
PLACE: Final = attrgetter("due_at", "generation")
"""Returns the due time and the generation of a job, by which due jobs are sorted."""
_STATES: Final = tuple(CODES) * 3
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000


def code_of(job: Job) -> int:
    if job.lacks_handler:
        return ASIDE
    return PAUSED if job.is_paused else CODES[job.state]


def in_int64(instant: int | None, otherwise: int = 0) -> int:
    return otherwise if instant is None else min(max(instant, -(2**63)), 2**63 - 1)


def successor(prefix: str) -> str | None:
    """
    Return the first string, in order of code points, after all strings that start with *prefix*; None if none exists.
    """
    while prefix:
        next_point = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if next_point <= sys.maxunicode:
            return prefix + chr(_AFTER_SURROGATES if next_point == _FIRST_SURROGATE else next_point)
    return None


def _function(head: str, value: str, doc: str = "", **names: object) -> Any:
    # a loop over the columns would take three times as long
    namespace = dict(names)
    exec(f"def {head}:\n return {value}", namespace)  # noqa: S102  this module contains all parts of the text
    function = namespace[head.partition("(")[0]]
    function.__doc__ = doc
    return function


def _make_row_of() -> Callable[[Job], tuple[Any, ...]]:
    names: dict[str, object] = {"code_of": code_of}
    values = []
    for each in ALL:
        value = f"job.{each.name}"
        if each.name == "state":
            value = "code_of(job)"
        elif each.encode is not None:
            names |= {f"{each.name}_{part}": getattr(each, part) for part in ("default", "empty", "encode")}
            value = f"{each.name}_empty if {value} is {each.name}_default else {each.name}_encode({value})"
        values.append(value)
    made: Callable[[Job], tuple[Any, ...]] = _function(
        "row_of(job)", f"({', '.join(values)},)", "Return the row of a job.", **names
    )
    return made


def _make_job_of() -> Callable[[Sequence[Any]], Job]:
    names: dict[str, object] = {"Job": Job, "STATES": _STATES}
    values = []
    for n, each in enumerate(ALL):
        value = f"row[{n}]"
        if each.name == "state":
            value = f"STATES[{value}]"
        elif each.decode is not None:
            names |= {f"{each.name}_{part}": getattr(each, part) for part in ("default", "empty", "decode")}
            value = f"{each.name}_default if {value} is {each.name}_empty else {each.name}_decode({value})"
        values.append(value)
    is_aside = f"row[{NAMES.index('state')}] == {ASIDE}"
    made: Callable[[Sequence[Any]], Job] = _function(
        "job_of(row)", f"Job({', '.join(values)}, {is_aside})", "Return the job of a row.", **names
    )
    return made


def is_default_but(
    kind: type, *names: str, nested: Mapping[str, tuple[type, Sequence[str]]] = MappingProxyType({}), also: str = "True"
) -> Callable[[Any], bool]:
    """
    Return a function that returns True if all fields of an instance of *kind*, except *names*, have their defaults.

    *nested* maps the name of a field with an object to the type of that object, and to the object's fields that are not
    compared. *also* is a further condition as Python text, in which `each` is the instance.
    """
    tests: list[str] = []
    defaults: dict[str, Any] = {}
    for prefix, (inner, left_out) in {
        "": (kind, (*names, *nested)),
        **{f"{name}.": nested[name] for name in nested},
    }.items():
        for each in fields(inner):
            if each.name not in left_out:
                name, default = f"{prefix}{each.name}".replace(".", "_"), each.default
                tests.append(f"each.{prefix}{each.name} {'==' if type(default) is int else 'is'} {name}")
                defaults[name] = default
    made: Callable[[Any], bool] = _function("is_default(each)", " and ".join([*tests, also]), **defaults)
    return made


def is_identical_but(kind: type, *names: str, texts: Sequence[str] = ()) -> Callable[[Any, Any], bool]:
    """
    Return a function that returns True if all fields of two instances of *kind*, except *names*, are the same objects.

    For the fields *texts*, equal strings are enough.
    """
    tests = [f"a.{each.name} is b.{each.name}" for each in fields(kind) if each.name not in {*names, *texts}]
    tests += [f"(a.{name} is b.{name} or (type(a.{name}) is str and a.{name} == b.{name}))" for name in texts]
    made: Callable[[Any, Any], bool] = _function("is_identical(a, b)", " and ".join(tests))
    return made


def is_same_but(*names: str) -> Callable[[Job, Job], bool]:
    tests = [f"(a.{name} is b.{name} or a.{name} == b.{name})" for name in NAMES if name not in names]
    made: Callable[[Job, Job], bool] = _function("is_same(a, b)", " and ".join(tests))
    return made


def with_other(*names: str) -> Callable[..., Job]:
    values = [each if each in names else f"job.{each}" for each in NAMES]
    made: Callable[..., Job] = _function(f"with_other(job, {', '.join(names)})", f"Job({', '.join(values)})", Job=Job)
    return made


row_of: Final = _make_row_of()
"""Returns the row of a job: its values for the columns of `ALL`, in order."""

job_of: Final = _make_job_of()
"""Returns the job of a row. The row has the columns of `ALL`, in order."""

is_plain: Final = is_default_but(Job, *PLAIN)
"""Returns True if a job is scheduled and has the defaults in all columns except those of `PLAIN`."""
