"""
The log target: one line for each firing, by default on standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime

from tickwheel.targets.contract import Call, Firing

__all__ = ["LogTarget"]


class LogTarget:
    """
    Prints each firing: for experiments, or as a plain record that other programs read.

        2030-01-01T09:00:00.000Z fired "tea" for "kitchen", attempt 1, 0.3 ms late: {"cups":2}
    """

    def __init__(self, write: Callable[[Firing], object] | None = None) -> None:
        self._write = _print if write is None else write

    def __repr__(self) -> str:
        return "<LogTarget>"

    def check(self, handler: str) -> None: ...

    def resolve(self, handler: str) -> Call:
        return Call(self._write, wants_payload=False, wants_firing=True)

    async def close(self) -> None: ...


def _print(firing: Firing) -> None:
    line = line_of(firing) + "\n"
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def line_of(firing: Firing) -> str:
    job = firing.job
    fired_at = datetime.fromtimestamp(firing.fired_at / 1000, UTC).isoformat(timespec="milliseconds")
    name = f" for {_quoted(job.handler)}" if job.handler else ""
    late = f"attempt {firing.attempt}, {max(0.0, firing.lateness_ms):.1f} ms late"
    payload = job.payload.decode()
    return f"{fired_at.removesuffix('+00:00')}Z fired {_quoted(job.key)}{name}, {late}: {payload}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped) + '"'
