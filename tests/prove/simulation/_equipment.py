"""
The equipment of nodes: a target, the data of a time zone, and a kind of rule.

After some of its starts a node lacks a part of its equipment. The functions that use the equipment are patched, because
all nodes run in one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from simulation._interleaver import current
from tickwheel.jobs import unreadable
from tickwheel.jobs.errors import InvalidRecurrenceError
from tickwheel.jobs.recurrence import Recurrence

__all__ = ["EQUIPMENT", "RULES", "TARGET", "ZONE", "equipment"]

EQUIPMENT: Final = ("zoned", "ruled", "sent")
"""Parts that a node may lack. Each has the same name as the handler whose jobs need it."""
TARGET: Final = "sent"
"""Name of the target that a node may lack."""
ZONE: Final = "Africa/Abidjan"
"""A zone whose clock always agrees with UTC."""
_MARKS: Final = {"zoned": f'"tz":"{ZONE}"', "ruled": '"exclude":'}
_PARTS: Final = {"zoned": "tz", "ruled": "exclude"}
RULES: Final = tuple(_PARTS)
"""
The parts of the equipment that a node needs to read a rule.
"""


@contextmanager
def equipment() -> Iterator[None]:
    """
    Within the context, make each part of the equipment unavailable to the machines that lack it.
    """
    read = Recurrence.from_text
    readers: dict[str, Any] = {part: _reader(name, unreadable.READERS[part]) for name, part in _PARTS.items()}
    with (
        mock.patch.object(Recurrence, "from_text", staticmethod(lambda text: _read(read, text))),
        mock.patch.dict(unreadable.READERS, readers),
    ):
        yield


def _read(read: Any, text: str) -> Any:
    for name, mark in _MARKS.items():
        if mark in text and _is_missing(name):
            raise InvalidRecurrenceError("recurrence", text, f"{name} is not installed here")
    return read(text)


def _reader(name: str, read: Any) -> Any:
    def careful(what: Any) -> object:
        if _is_missing(name) and (name != "zoned" or what == ZONE):
            raise InvalidRecurrenceError("recurrence", str(what), f"{name} is not installed here")
        return read(what)

    return careful


def _is_missing(name: str) -> bool:
    run = current()
    machine = None if run is None else run.current.machine
    return name in getattr(machine, "lacks", ())
