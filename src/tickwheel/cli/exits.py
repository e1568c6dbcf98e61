"""
The exit codes of errors, defined once; `tickwheel --help` prints them.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Self

from tickwheel.errors import MissingExtraError, TickwheelError
from tickwheel.jobs.errors import (
    AccessError,
    HandlerNotFoundError,
    StoreError,
    StoreFormatError,
    StoreInUseError,
    UnsupportedError,
)

__all__ = ["ExitCode", "Refused", "exit_code_of", "table"]


@unique
class ExitCode(IntEnum):
    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    DONE = 0, "done"
    FAILED = 1, "a fault of tickwheel, or of the system"
    USAGE = 2, "the command, or a value in it, is wrong"
    NOT_FOUND = 3, "there is no such job"
    TOO_LATE = 4, "the job is running"
    WRONG_GENERATION = 5, "the job has another generation"
    STORE_IN_USE = 6, "another process owns the store"
    NO_STORE = 7, "the file is not a store of tickwheel's, or cannot be opened"
    NO_ADDRESS = 8, "the address cannot be listened on"
    MISSING_EXTRA = 9, "a library is not installed"
    REFUSED = 10, "refused for safety: a public address without a token"
    BROKEN = 11, "a threshold of a load was missed, or a promise was broken under chaos"
    NO_ACCESS = 12, "the service asks for a token, or for another one"
    NO_ANSWER = 13, "the store or service did not answer in time"
    INTERRUPTED = 130, "interrupted by Ctrl-C"


class Refused(Exception):  # noqa: N818  an answer, not an error
    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def exit_code_of(error: TickwheelError) -> ExitCode:  # noqa: PLR0911  a table, one row for each error
    match error:
        case MissingExtraError():
            return ExitCode.MISSING_EXTRA
        case StoreInUseError():
            return ExitCode.STORE_IN_USE
        case StoreFormatError():
            return ExitCode.NO_STORE
        case StoreError():
            return ExitCode.NO_ANSWER if error.is_transient else ExitCode.NO_STORE
        case AccessError():
            return ExitCode.NO_ACCESS
        case ValueError() | HandlerNotFoundError() | UnsupportedError():
            return ExitCode.USAGE
    return ExitCode.FAILED


def table() -> str:
    return "\n".join(f"  {code.value:>3}  {code.meaning}" for code in ExitCode)
