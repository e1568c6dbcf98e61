"""
Counts the CPU time of each test with its child processes.

It prints the ten largest times, and fails a test over the limit. The time of a class, module or session fixture is not
part of the test that first requests the fixture.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

SHOWN = 10
SHORT_S = 0.05
"""If a test lasts fewer seconds than this, the CPU time of the other processes that it uses is not read."""
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def of_descendants(pid):
    """
    Return the CPU seconds of the running processes that *pid* has started.

    The ended children of these processes count, too.
    """
    total = 0.0
    for thread in listed(f"/proc/{pid}/task"):
        for child in text_of(f"/proc/{pid}/task/{thread}/children").split():
            fields = text_of(f"/proc/{child}/stat").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / TICKS + of_descendants(child)
    return total


def listed(folder):
    """
    Return the names in a folder of /proc, or an empty list if the process of the folder has ended.
    """
    try:
        return os.listdir(folder)  # noqa: PTH208  it runs for each process at each test, and costs a tenth of a Path's
    except OSError:
        return []


def text_of(path):
    """
    Return the text of a file in /proc, or "" if the process or thread that the file describes has ended.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(file, 65_536).decode()
    except OSError:
        return ""
    finally:
        os.close(file)


def cpu_seconds():
    """
    Return the seconds of CPU that this process and its descendants have used.
    """
    return own_seconds() + others_seconds()


def own_seconds():
    """
    Return the seconds of CPU that this process has used.
    """
    return sum(os.times()[:2])


def others_seconds():
    """
    Return the seconds of CPU that the descendants of this process have used.
    """
    return sum(os.times()[2:4]) + of_descendants(os.getpid())


class Meter:
    """
    Measures the CPU time of the tests in one process.
    """

    def __init__(self, limit_s):
        self.limit_s = limit_s
        self.own = self.others = None
        self.shared = self.lasted = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """
        Do not count the time of a shared fixture for the test that requests it first.
        """
        if fixturedef.scope == "function":
            return (yield)
        before, outer = cpu_seconds(), self.shared
        try:
            return (yield)
        finally:
            self.shared = outer + cpu_seconds() - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self):
        """
        Measure the first test from its start, and each later test from the end of the previous test.
        """
        if self.own is None:
            self.own, self.others = own_seconds(), others_seconds()
        self.shared = self.lasted = 0.0
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """
        Record the CPU time of the test in its last report. Fail a test above the limit.

        After a short test the CPU times of other processes are not read, because this is slow. They are added to the
        next
        longer test.
        """
        report = yield
        self.lasted += call.duration
        if call.when == "teardown":
            now, others = own_seconds(), others_seconds() if self.lasted > SHORT_S else self.others
            used = now - self.own + others - self.others
            report.cpu_s, report.shared_s = max(0.0, used - self.shared), self.shared
            self.own, self.others = now, others
            if report.passed and self.limit_s and report.cpu_s > self.limit_s:
                report.outcome = "failed"
                report.longrepr = (
                    f"{item.nodeid} used {report.cpu_s:.1f} s of CPU, and a quick test may use {self.limit_s:g}: "
                    "make it cheaper, or let `make test-times` move it to the tests of `make test-full`"
                )
        return report


class Ledger:
    """
    Adds up the CPU times of the tests in all processes of pytest-xdist.
    """

    def __init__(self, path):
        self.path = path
        self.used = Counter()
        self.shared = Counter()
        self.lasted = Counter()

    def pytest_runtest_logreport(self, report):
        """
        Add the times from the report of one phase of a test.

        Only the report of the last phase has the CPU time.
        """
        name = report.nodeid
        self.used[name] += getattr(report, "cpu_s", 0.0)
        self.shared[name] += getattr(report, "shared_s", 0.0)
        self.lasted[name] += report.duration
        if self.path and report.when == "teardown":
            with self.path.open("a") as file:
                seconds = [round(figures[name], 3) for figures in (self.used, self.lasted, self.shared)]
                print(json.dumps([name, *seconds]), file=file)

    def pytest_terminal_summary(self, terminalreporter):
        """
        Print the tests with the most CPU time.
        """
        total = f"{self.used.total():.0f} s of CPU, and {self.shared.total():.0f} s of shared fixtures"
        terminalreporter.section(f"the {SHOWN} dearest of {total}")
        for name, seconds in self.used.most_common(SHOWN):
            terminalreporter.write_line(f"{seconds:6.1f} s  {name}")


def pytest_addoption(parser):
    group = parser.getgroup("CPU of tests")
    group.addoption("--cpu", action="store_true", help="print the tests that use most CPU")
    group.addoption("--cpu-limit", type=float, default=0, metavar="S", help="fail a test that uses more than S seconds")
    group.addoption("--cpu-log", type=Path, metavar="FILE", help="append each test's seconds of CPU to FILE")


def pytest_configure(config):
    """
    Measure CPU times if an option requests it.
    """
    if not (config.option.cpu or config.option.cpu_limit or config.option.cpu_log):
        return
    if not config.getoption("numprocesses", None):
        config.pluginmanager.register(Meter(config.option.cpu_limit), "cpu-meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ledger(config.option.cpu_log), "cpu-ledger")
