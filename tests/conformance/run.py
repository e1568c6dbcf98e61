"""
Compares other projects' tests on asyncio's loop and on tickwheel's: `python tests/conformance/run.py PYTHON...`.

Each suite runs on both loops at the same time, in separate processes and folders. If tests differ, both runs are
repeated, because the outcome of some tests depends on timing. A test that differs every time is an error.
"""

# ruff: noqa: T201 - it prints a table

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from record import END, OUTCOMES
from suites import EACH_PYTHON, NEWEST_PYTHON, Suite

HERE: Final = Path(__file__).parent
TRIES: Final = 3
TIMEOUT_S: Final = 3600
HEAD: Final = ("suite", "Python", "tests", "passed", "skipped", "failed", "differ", "unsteady")

Outcomes = dict[str, str]


class Row(NamedTuple):
    """
    A row of the printed table, with the counts of the last run on tickwheel's loop.

    `differ` is the number of tests that differ from asyncio's loop in every run. `unsteady` is the number of tests that
    differ only in some runs.
    """

    suite: str
    python: str
    tests: int | str
    passed: int | str = ""
    skipped: int | str = ""
    failed: int | str = ""
    differ: int | str = ""
    unsteady: int | str = ""


class Bench:
    """
    An interpreter, with the packages that are installed for it.

    Args:
        python: The interpreter.
        sources: Folder with unpacked sdists.
        logs: Folder for the output of the suites.
    """

    def __init__(self, python: Path, sources: Path, logs: Path) -> None:
        self._python = python.absolute()  # not resolved, because that would leave its environment
        self._sources = sources
        self._logs = logs
        self.version = self._ask("import sys; print('%d.%d.%d' % sys.version_info[:3])").strip()

    def _ask(self, program: str) -> str:
        return subprocess.run([self._python, "-c", program], capture_output=True, text=True, check=False).stdout

    def has(self, suite: Suite) -> bool:
        """
        Return True if the interpreter has the suite's module.

        If the suite needs an sdist, the sdist must be unpacked, too.
        """
        return "is here" in self._ask(f"import {suite.module}; print('is here')") and bool(self._folders(suite))

    def _folders(self, suite: Suite) -> list[Path]:
        return [path for path in self._sources.glob(f"{suite.sdist}-*") if path.is_dir()] if suite.sdist else [HERE]

    def outcomes(self, suite: Suite, *, is_swapped: bool) -> Outcomes:
        """
        Run a suite, and return how each test ended.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = [str(HERE / "swap" / suite.swap)] if is_swapped else []
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            environment |= {"PYTHONPATH": os.pathsep.join(path)} if path else {}
            file, work = Path(folder) / "outcomes", Path(folder) / "work"
            shutil.copytree(self._folders(suite)[0], work) if suite.sdist else work.mkdir()  # some leave files behind
            command = [self._python, "-P", HERE / "record.py", file, suite.runner, *suite.arguments]
            log = self._logs / f"{suite.name} {self.version} {'tickwheel' if is_swapped else 'asyncio'}.log"
            with log.open("wb") as out:
                subprocess.run(
                    command,
                    cwd=work,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    timeout=TIMEOUT_S,
                    check=False,
                )
            lines = file.read_text("utf-8").splitlines() if file.exists() else []
        if not lines or lines.pop() != END:
            sys.exit(f"{suite.name} did not come to its end: see {log}")
        found: Outcomes = {}
        for line in lines:
            outcome, test = line.split("\t", 1)
            found[test] = max(outcome, found.get(test, outcome), key=OUTCOMES.index)
        return found

    def compare(self, suite: Suite) -> Row:
        """
        Run a suite on both loops, and print the differences.

        Return the suite's row of the table.
        """
        differing: set[str] | None = None
        seen: set[str] = set()
        for _ in range(TRIES):
            with ThreadPoolExecutor(2) as pool:
                runs = [pool.submit(self.outcomes, suite, is_swapped=is_swapped) for is_swapped in (False, True)]
                stock, ours = (run.result() for run in runs)
            if not ours:
                sys.exit(f"{suite.name}: no test was found")
            now = {test for test in stock | ours if stock.get(test) != ours.get(test)}
            differing = now if differing is None else differing & now
            seen |= now
            for test in sorted(now):
                print(f"    {test}: {stock.get(test)} on asyncio, {ours.get(test)} on tickwheel", flush=True)
            if not differing:
                break
        counts = Counter(ours.values())
        passed = counts["passed"] + counts["failed as expected"]
        differ = len(differing or ())
        return Row(
            suite.name, self.version, len(ours), passed, counts["skipped"], counts["failed"], differ, len(seen) - differ
        )


def main() -> int:
    """
    Run the chosen suites and print the table.

    Return the number of tests that differ.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", type=Path, help="interpreters with tickwheel, the newest last")
    parser.add_argument("--sources", type=Path, default=Path(), help="where sdists are unpacked")
    parser.add_argument("--only", action="append", metavar="SUITE", help="only this suite; may be given again")
    options = parser.parse_args()
    logs = Path(tempfile.mkdtemp(prefix="conformance-"))
    print(f"what the suites print is kept in {logs}")
    rows = []
    for python in options.pythons:
        bench = Bench(python, options.sources.absolute(), logs)
        for suite in EACH_PYTHON + (NEWEST_PYTHON if python == options.pythons[-1] else ()):
            if options.only and suite.name not in options.only:
                continue
            print(f"{suite.name} on Python {bench.version}", flush=True)
            rows.append(bench.compare(suite) if bench.has(suite) else Row(suite.name, bench.version, "missing"))
    print()
    for line in (HEAD, ("---",) * len(HEAD), *rows):
        print("|", " | ".join(map(str, line)), "|")
    return sum(row.differ for row in rows if isinstance(row.differ, int))


if __name__ == "__main__":
    sys.exit(min(main(), 1))
