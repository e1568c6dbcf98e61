"""
Runs another project's tests, and records how each test ended: `python record.py FILE RUNNER ARGUMENT...`.

Each line of the file has an outcome, a tab, and the name of the test. The last line is END.
"""

from __future__ import annotations

import contextlib
import functools
import runpy
import sys
import unittest
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

__all__ = ["END", "OUTCOMES"]

END: Final = "END"
OUTCOMES: Final = ("passed", "failed as expected", "skipped", "failed")
"""Outcomes from the best to the worst. If the subtests of a test end in several ways, the worst outcome is used."""

METHODS: Final = {
    "addSuccess": "passed",
    "addExpectedFailure": "failed as expected",
    "addSkip": "skipped",
    "addError": "failed",
    "addFailure": "failed",
    "addUnexpectedSuccess": "failed",
    "addSubTest": "failed",
}
REPORTS: Final = {"passed": "passed", "skipped": "skipped", "failed": "failed"}

Note = Callable[[str, str], None]


def watch(kind: type[unittest.TestResult], note: Note) -> None:
    """
    Make a class of test results record the outcomes that it receives.
    """
    for name, outcome in METHODS.items():
        told = kind.__dict__.get(name)
        if told is not None:
            setattr(kind, name, _noting(told, outcome, note))


def _noting(told: Callable[..., Any], outcome: str, note: Note) -> Callable[..., Any]:
    @functools.wraps(told)
    def tell(self: unittest.TestResult, test: unittest.TestCase, *rest: Any, **named: Any) -> Any:
        is_passed_subtest = told.__name__ == "addSubTest" and rest[1] is None
        if not is_passed_subtest:
            note(outcome, test.id())
        return told(self, test, *rest, **named)

    return tell


class Plugin:
    """
    Records the outcomes that pytest reports.
    """

    def __init__(self, note: Note) -> None:
        self._note = note

    def pytest_runtest_logreport(self, report: Any) -> None:
        """
        Record the outcome of a test.

        If its set-up or teardown did not pass, record that outcome, too.
        """
        if report.when == "call" or not report.passed:
            is_expected = hasattr(report, "wasxfail") and report.skipped
            self._note("failed as expected" if is_expected else REPORTS[report.outcome], report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """
        Record a file that could not be collected.
        """
        if not report.passed:
            self._note(REPORTS[report.outcome], report.nodeid)


def run(runner: str, arguments: list[str], note: Note) -> None:
    """
    Run tests with a runner: pytest, trial, or a module or file that uses unittest.
    """
    if runner == "pytest":
        import_module("pytest").main(arguments, plugins=[Plugin(note)])
        return
    if runner == "trial":
        watch(import_module("twisted.trial.reporter").TestResult, note)
        sys.argv = ["trial", *arguments]
        import_module("twisted.scripts.trial").run()
        return
    watch(unittest.TestResult, note)
    sys.argv = [runner, *arguments]
    if runner.endswith(".py"):
        runpy.run_path(runner, run_name="__main__")
    else:
        runpy.run_module(runner, run_name="__main__", alter_sys=True)


def main(file: str, runner: str, *arguments: str) -> None:
    """
    Run the tests, and write their outcomes to *file*.
    """
    with Path(file).open("w", encoding="utf-8", buffering=1) as out:

        def note(outcome: str, test: str) -> None:
            print(outcome, " ".join(test.split()), sep="\t", file=out)

        with contextlib.suppress(SystemExit):  # runners exit like this if something failed
            run(runner, list(arguments), note)
        print(END, file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
