"""
Traces are read and written, and bad lines are refused.
"""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tickwheel.lab.trace import TraceError, TraceOperation, read_trace, write_trace

HEADER = "t_us,op,key,delay_us\n"
SMALL = [
    TraceOperation(0, "S", "a", 5_000_000),
    TraceOperation(7, "S", "b", -7),
    TraceOperation(7, "C", "a", 0),
    TraceOperation(9, "S", "b", 0),
    TraceOperation(9, "S", 'Zürich, "Main"\nStation', 1),
]


def write_gzip(path: Path, data: bytes) -> None:
    """
    Write *data* to *path*, gzipped.
    """
    path.write_bytes(gzip.compress(data))


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_a_written_trace_is_read_back(tmp_path: Path, name: str) -> None:
    """
    A trace that is written to a file is read back unchanged, whether or not the file is compressed.

    The same trace always gives the same bytes.
    """
    first, second = tmp_path / name, tmp_path / f"again.{name}"
    assert write_trace(first, SMALL) == 5
    write_trace(second, iter(SMALL))
    assert read_trace(first) == SMALL
    assert first.read_bytes() == second.read_bytes()


def test_columns_in_any_order(tmp_path: Path) -> None:
    """
    The first line names the columns, which may be in any order. Unknown columns are ignored.
    """
    path = tmp_path / "trace.csv"
    path.write_text("key,note,op,delay_us,t_us\na,x,S,5,1\n")
    assert read_trace(path) == [TraceOperation(1, "S", "a", 5)]


@pytest.mark.parametrize("write", [lambda path, data: path.write_bytes(data), write_gzip], ids=["plain", "gzip"])
def test_a_byte_order_mark(tmp_path: Path, write: Callable[[Path, bytes], object]) -> None:
    """
    A byte order mark at the beginning of a file does not become part of the first column.
    """
    path = tmp_path / ("trace.csv.gz" if write is write_gzip else "trace.csv")
    write(path, f"\ufeff{HEADER}1,S,a,5\n".encode())
    assert read_trace(path) == [TraceOperation(1, "S", "a", 5)]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "t_us is missing in nothing"),
        ("t_us,op,key\n", 1, "delay_us is missing in t_us, op, key"),
        (HEADER + "0,S,a,5\n5,S,b\n", 3, "expected 4 fields, found 3"),
        (HEADER + "0,S,a,5\n\n", 3, "expected 4 fields, found 0"),
        (HEADER + "0,X,a,5\n", 2, "op is 'X': expected S (set) or C (cancel)"),
        (HEADER + "5,S,a,5\n4,C,a,\n", 3, "t_us is 4, after 5: expected times that never go back"),
        (HEADER + "zero,S,a,5\n", 2, "t_us is 'zero'"),
        (HEADER + "-1,S,a,5\n", 2, "t_us is '-1'"),
        (HEADER + "0,S,a,\n", 2, "delay_us is ''"),
        (HEADER + "0,S,a,1.5\n", 2, "delay_us is '1.5'"),
        (HEADER + "0,S,a,99999999999999999999\n", 2, "delay_us is '99999999999999999999'"),
        (HEADER + "3,S,a,-4\n", 2, "delay_us is '-4': expected microseconds, an integer in -3.."),
    ],
)
def test_lines_that_cannot_be_read(tmp_path: Path, text: str, line: int, problem: str) -> None:
    """
    If a line is invalid, the error has the number of the line and the expected form.
    """
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(TraceError) as refusal:
        read_trace(path)
    assert refusal.value.line == line
    assert problem in str(refusal.value)
    assert f"{path}, line {line}: " in str(refusal.value)


def test_truncated_gzip(tmp_path: Path) -> None:
    """
    If a gzipped trace is incomplete, it is refused, and the error names the line at which it ends.
    """
    path = tmp_path / "trace.csv.gz"
    lines = [TraceOperation(number * 3, "S", f"key {number * 7_919 % 1_000_003}", number) for number in range(20_000)]
    write_trace(path, lines)
    path.write_bytes(path.read_bytes()[:-20_000])
    with pytest.raises(TraceError, match="the gzip data ends or breaks off here") as refusal:
        read_trace(path)
    assert 1_000 < refusal.value.line < 20_000


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """
    A file is refused if it does not exist, is not text, or is named `.gz` without being compressed.

    The error is one sentence.
    """
    path = tmp_path / "trace.csv.gz"
    for content in (b"t_us,op,key,delay_us\n", b"", gzip.compress(b"\xff\xfe\x00")):
        path.write_bytes(content)
        with pytest.raises(TraceError):
            read_trace(path)
    with pytest.raises(TraceError, match="No such file"):
        read_trace(tmp_path / "absent.csv")
    with pytest.raises(TraceError, match="directory"):
        read_trace(tmp_path)
