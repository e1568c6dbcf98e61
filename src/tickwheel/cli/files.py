from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from tickwheel.cli.exits import ExitCode, Refused

__all__ = ["STDIN", "name_of", "naming", "text_of"]

STDIN: Final = "<stdin>"
_ARGUMENT: Final = re.compile(r"\b([a-z_]+)=(?![=\w])")


def name_of(file: BinaryIO) -> str:
    name = getattr(file, "name", STDIN)
    return STDIN if name == STDIN else Path(name).name


def text_of(file: BinaryIO) -> str:
    try:
        return file.read().decode("utf-8-sig")  # line ends are kept, because a cell of a table may contain line ends
    except UnicodeDecodeError as error:
        message = f"{name_of(file)!r} is not text in UTF-8 ({error.reason}): convert it first"
        raise Refused(ExitCode.USAGE, message) from None


@contextmanager
def naming(number: int, addition: str = "", *, has_columns: bool) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        text = _ARGUMENT.sub(r"the column \1", str(error)) if has_columns else str(error)
        raise Refused(ExitCode.USAGE, f"line {number}: {text}{addition}") from None
