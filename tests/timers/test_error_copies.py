"""
A copy of an error is equal to the error, and shares no traceback frames with it.

If an error cannot be copied in this way, the error itself is used.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import subprocess
import sys
from traceback import walk_tb

import pytest

from tickwheel.errors import ClosedError, DeadlineExceededError, InvalidDelayError, LoadTimeoutError, ValueTooLargeError
from tickwheel.timers.error_copies import copy_error


class SlottedError(Exception):
    """
    An error with slots.
    """

    __slots__ = ("code",)

    def __init__(self, text, *, code):
        super().__init__(text)
        self.code = code


class CountedError(Exception):
    """
    An error whose class counts how often it was constructed.
    """

    made = 0

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        type(self).made += 1
        self.one, self.two = one, two


class QuietError(OSError):
    """
    An error whose `__init__` passes no arguments to OSError.
    """

    def __init__(self, path):
        self.path = path


class OverwrittenError(Exception):
    """
    An error whose arguments change after construction.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.args = ("other",)


class SealedError(Exception):
    """
    An error whose attribute `args` cannot be set.
    """

    @property
    def args(self):
        return ("sealed",)


def with_notes():
    error = ValueError("noted", 1, [2])
    error.add_note("first")
    error.extra = object()
    return error


def decoded():
    return json.JSONDecodeError("bad", "{", 1)


COPIED = [
    ValueError("plain"),
    KeyError(),
    OSError(2, "no such file", "here"),
    OSError(2, "no such file", "here", None, "there"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ImportError("no", name="module", path="there"),
    AttributeError("no", name="x", obj=[1]),
    SyntaxError("bad", ("file", 1, 2, "text", 1, 3)),
    StopIteration(7),
    SystemExit(3),
    KeyboardInterrupt(),
    BlockingIOError(11, "again", 5),
    ExceptionGroup("many", [ValueError("a"), KeyError("b")]),
    asyncio.CancelledError("why"),
    concurrent.futures.CancelledError("why"),
    subprocess.CalledProcessError(1, ["ls"], b"out", b"err"),
    decoded(),
    with_notes(),
    SlottedError("text", code=3),
    QuietError("here"),
    OverwrittenError("mine"),
    ClosedError("cache"),
    InvalidDelayError("delay", "x"),
    ValueTooLargeError(2.0, 1.0),
    DeadlineExceededError(1.5),
    LoadTimeoutError(0.5),
]


def state(error):
    names = [name for name in dir(error) if not name.startswith("__") and not callable(getattr(error, name, None))]
    return type(error), error.args, str(error), {name: getattr(error, name, None) for name in names}, vars(error)


def fail(error):
    """
    Raise and catch *error*, and return it.
    """
    with pytest.raises(type(error)):
        raise error
    return error


@pytest.mark.parametrize("error", COPIED, ids=lambda error: type(error).__name__)
def test_a_copy_is_equal(error):
    """
    A copy has the type, arguments, text and attributes of the error, but not its traceback.
    """
    fail(error)
    before = error.__traceback__
    copy = copy_error(error, None)
    assert copy is not error
    assert state(copy) == state(error)
    assert (copy.__traceback__, error.__traceback__) == (None, before)


def test_an_error_that_cannot_be_copied_is_itself():
    """
    If a copy of an error would differ from the error, the error itself is used, with its traceback reset.
    """
    error = fail(SealedError("x"))
    assert copy_error(error, None) is error
    assert error.__traceback__ is None


def test_no_constructor_is_called():
    """
    Copying an error has no side effects, because the `__init__` of its type is not called.
    """
    error = CountedError(1, 2)
    copies = [copy_error(error, None) for _ in range(3)]
    assert CountedError.made == 1
    assert [(str(copy), copy.one, copy.two) for copy in copies] == [("1 and 2", 1, 2)] * 3


def test_a_note_stays_with_its_copy():
    """
    If one caller adds a note to its copy of an error, the copies of other callers do not have this note.
    """
    error = with_notes()
    copy = copy_error(error, None)
    copy.add_note("second")
    assert (error.__notes__, copy.__notes__) == (["first"], ["first", "second"])


def load():
    try:
        int("x")
    except ValueError as cause:
        raise OSError("down") from cause


def chained():
    """
    Return two errors. The second is raised by a load that begins while the first is being handled.
    """
    try:
        {}["the caller's"]
    except KeyError as outer:
        try:
            load()
        except OSError as error:
            return outer, error


def test_the_chain_ends_before_the_caller():
    """
    A copy of the error that a load raised has the causes of that error, but nothing that belongs to the caller.
    """
    outer, error = chained()
    assert error.__cause__.__context__ is outer
    copy = copy_error(error, None, outer)
    assert type(copy.__cause__) is type(copy.__context__) is ValueError
    assert copy.__cause__.__context__ is None
    assert copy.__suppress_context__
    assert [frame.f_code.co_name for frame, _ in walk_tb(copy.__cause__.__traceback__)] == ["load"]
    assert error.__cause__.__context__ is outer


def test_a_circle_of_causes_ends():
    """
    If two errors are causes of each other, the copy has each of them once.
    """
    one, two, outer = ValueError(1), ValueError(2), ValueError(3)
    one.__context__, two.__cause__ = two, one
    assert copy_error(one, None, outer).__context__ is two


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="sqlite3's errors are made by its C code")
def test_errors_of_extensions():
    """
    A class of an extension that inherits from a builtin error is copied like any other class.
    """
    import sqlite3  # noqa: PLC0415 - not every Python has it

    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(":memory:").execute("select nothing")
    copy = copy_error(caught.value, None)
    assert copy is not caught.value
    assert state(copy) == state(caught.value)
