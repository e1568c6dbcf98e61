from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tickwheel.errors import TickwheelError
from tickwheel.lab.designs import Design
from tickwheel.lab.trace import TraceOperation
from tickwheel.lab.workload import workload_of

__all__ = ["Comparison", "MeasureError", "compare"]

STEPS: Final = 300_000


class MeasureError(TickwheelError, RuntimeError):
    def __init__(self, design: Design, pending: int, output: str) -> None:
        lines = output.strip().splitlines() or ["it said nothing"]
        super().__init__(f"{design} at {pending} pending: {lines[-1]}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    The results of a comparison.

    *rows* are the figures of `lab.measure`, each with its `design`, `wheel` (with options) and requested `size`.
    """

    trace: str
    machine: str
    rows: list[dict[str, Any]]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def compare(
    name: str,
    operations: Sequence[TraceOperation],
    designs: Sequence[Design],
    sizes: Sequence[int],
    *,
    steps: int = STEPS,
    progress: Callable[[str], object] | None = None,
) -> Comparison:
    """
    Measure each design at each size, one process at a time.

    *operations* is the trace *name*. It is replayed several times at once, until enough timers are pending. *sizes* are
    the numbers of timers that are pending at the start, and *steps* is the number of operations after the start.
    *progress* is called with a text before each case, and with "done" at the end.
    """
    rows = []
    report = progress or (lambda _: None)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "workload"
        for size in sizes:
            report(f"{size:,} pending: superposing")
            workload_of(operations, size, steps).write(path)
            for design in designs:
                report(f"{size:,} pending: {design.name}")
                figures = _measured(design, size, path)
                rows.append({"design": design.name, "wheel": str(design), "size": size, **figures})
    report("done")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    return Comparison(name, machine, rows)


def _measured(design: Design, size: int, workload: Path) -> dict[str, Any]:
    job = json.dumps({"wheel": str(design), "workload": str(workload)})
    answer = subprocess.run(
        [sys.executable, "-m", "tickwheel.lab.measure"], input=job, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise MeasureError(design, size, answer.stderr)
    figures: dict[str, Any] = json.loads(answer.stdout)
    return figures
