"""
Options for tests/prove/dates.py, which runs tests at given instants.

`--record-dates` records the tests that read the time of day, with a clock that counts its readings. `--from-instant`
starts each test at a given instant, with a clock that can be set.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

import pytest

from quick_set import names_of


class Shared:
    """
    A number that the interposed clock shares with the tests.

    The number is in a file that an environment variable names.
    """

    def __init__(self, variable):
        with Path(os.environ[variable]).open("r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 8)

    def get(self):
        return struct.unpack("<q", self.bytes[:])[0]

    def set(self, number):
        """
        Store *number* in the shared file.

        Every process with the interposed clock reads this file.
        """
        self.bytes[:] = struct.pack("<q", number)


class Recorder:
    """
    Records each test that reads the time of day, itself or by its fixtures and processes.
    """

    def __init__(self, path):
        self.path = path
        self.count = Shared("INTERPOSED_READS")
        self.reads = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """
        Count the clock readings in each fixture that belongs to this test alone (function scope).
        """
        before = self.count.get()
        try:
            return (yield)
        finally:
            if fixturedef.scope == "function":
                self.reads += self.count.get() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        """
        Count the clock readings of the test. If the test or its fixtures have read the clock, record the test.
        """
        before = self.count.get()
        try:
            return (yield)
        finally:
            if self.reads + self.count.get() - before:
                with self.path.open("a", encoding="utf-8") as file:
                    print(pyfuncitem.nodeid, file=file)
            self.reads = 0


class OnlyListed:
    """
    Omits tests that are not in the given list, before their cases are made.
    """

    def __init__(self, names):
        self.names = set(names)
        self.made = set().union(*map(names_of, names))

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, collector, name):
        """
        Collect only the listed functions, and the classes with listed methods.
        """
        return None if f"{collector.nodeid}::{name}" in self.made else []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        """
        Omit cases that are not in the list.
        """
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.names])
        items[:] = [item for item in items if item.nodeid in self.names]


class Setter:
    """
    Sets the clock to a given instant before each test.
    """

    def __init__(self, instant_s):
        self.instant_ns = int(instant_s * 1e9)
        self.offset = Shared("INTERPOSED_OFFSET")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self):
        """
        Before the test, set the clock to the given instant.
        """
        self.offset.set(self.instant_ns - (time.time_ns() - self.offset.get()))
        return (yield)


def pytest_addoption(parser):
    group = parser.getgroup("time of day")
    group.addoption("--only-listed", type=Path, metavar="FILE", help="run only the tests that FILE lists")
    group.addoption("--record-dates", type=Path, metavar="FILE", help="append to FILE the tests that read it")
    group.addoption("--from-instant", type=float, metavar="S", help="let each test begin at this Unix time")


def pytest_configure(config):
    """
    Depending on the options, select the listed tests, record tests, or set the clock.
    """
    if config.option.only_listed:
        names = config.option.only_listed.read_text("utf-8").splitlines()
        config.pluginmanager.register(OnlyListed(names), "only-listed")
    if config.option.record_dates:
        config.pluginmanager.register(Recorder(config.option.record_dates), "date-recorder")
    if config.option.from_instant is not None:
        config.pluginmanager.register(Setter(config.option.from_instant), "date-setter")
