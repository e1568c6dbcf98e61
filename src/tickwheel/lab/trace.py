"""
Traces of timers: sets, moves and removals with their times.

A trace is CSV, gzipped or plain, sorted by time:

    t_us,op,key,delay_us
    0,S,tea,240000000        set or move `tea` to fire at t + delay
    31000000,C,tea,          remove `tea`

Times are microseconds. Operations at equal times apply in the order of the file, after due timers have fired.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import IO, Final, NamedTuple

from tickwheel.errors import TickwheelError

__all__ = ["COLUMNS", "TraceError", "TraceOperation", "read_trace", "write_trace"]

COLUMNS: Final = ("t_us", "op", "key", "delay_us")
LATEST_US: Final = 2**62 // 1_000
"""Maximum time and maximum delay, 146 years each, so that their sum is a valid deadline."""
NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


class TraceOperation(NamedTuple):
    """
    One line of a trace. `op` is S for set or C for cancel, and the delay of a C is 0.
    """

    t_us: int
    op: str
    key: str
    delay_us: int


class TraceError(TickwheelError, ValueError):
    def __init__(self, path: Path, line: int, problem: str) -> None:
        self.path = path
        self.line = line
        super().__init__(f"{path}, line {line}: {problem}")


def read_trace(path: Path, most: int | None = None) -> list[TraceOperation]:
    """
    Return at most *most* operations of the trace at *path*, which is gzipped if its name ends in `.gz`.
    """
    operations: list[TraceOperation] = []
    line = 1
    try:
        with _opened(path) as file:
            rows = csv.reader(file)
            columns = _checked_header(path, next(rows, []))
            for line, row in enumerate(islice(rows, most), start=2):
                operations.append(_operation(path, line, row, columns, operations))
    except (EOFError, zlib.error) as error:
        raise TraceError(path, line, "the gzip data ends or breaks off here: copy the file again") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(path, line + 1, f"expected lines of text in UTF-8, separated by commas: {error}") from error
    except OSError as error:
        raise TraceError(path, line, f"cannot be read: {error.strerror or error}") from error
    return operations


def write_trace(path: Path, operations: Iterable[TraceOperation]) -> int:
    """
    Write *operations* to *path*, gzipped for `.gz`, and return their number. Equal operations give equal bytes.
    """
    count = 0
    with path.open("wb") as raw:
        file = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
        with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(COLUMNS)
            for t_us, op, key, delay_us in operations:
                writer.writerow((t_us, op, key, delay_us if op == "S" else ""))
                count += 1
    return count


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _checked_header(path: Path, header: list[str]) -> list[int]:
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        found = ", ".join(header) or "nothing"
        raise TraceError(path, 1, f"expected the columns {', '.join(COLUMNS)}; {missing[0]} is missing in {found}")
    return [header.index(column) for column in COLUMNS]


def _operation(
    path: Path, line: int, row: list[str], columns: list[int], before: list[TraceOperation]
) -> TraceOperation:
    if len(row) <= max(columns):
        raise TraceError(path, line, f"expected {len(COLUMNS)} fields, found {len(row)}")
    time, op, key, delay = (row[column] for column in columns)
    if op not in {"S", "C"}:
        raise TraceError(path, line, f"op is {op!r}: expected S (set) or C (cancel)")
    t_us = _number(path, line, "t_us", time)
    if before and t_us < before[-1].t_us:
        raise TraceError(path, line, f"t_us is {t_us}, after {before[-1].t_us}: expected times that never go back")
    if op == "C":
        return TraceOperation(t_us, op, key, 0)
    # A negative delay is allowed: real programs set timers for times that have passed.
    return TraceOperation(t_us, op, key, _number(path, line, "delay_us", delay, least=-t_us))


def _number(path: Path, line: int, column: str, text: str, least: int = 0) -> int:
    if NUMBER.fullmatch(text) and least <= int(text) <= LATEST_US:
        return int(text)
    raise TraceError(path, line, f"{column} is {text!r}: expected microseconds, an integer in {least}..{LATEST_US}")
