"""
`--quick` omits the tests that tests/full_only.txt lists. A test that was not measured yet is not in this list.

A line of the list names a file, a class, a function or a case. A line that begins with ! names an exception, which
stays in the quick set.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "full_only.txt"


class QuickSet:
    """
    A pytest plugin that omits the tests in tests/full_only.txt, and records lines of this list that match no test.

    Attributes:
        listed: The names of the files, classes, functions and cases that a quick run omits.
        kept: The exceptions: names after a !. They stay in a quick run although a listed name includes them.
        unmatched: Lines about a completely collected file that match none of its tests.
        collected: All collected tests, and whether they are quick.
        not_made: Listed classes and functions without an exception. A quick run does not collect them.
    """

    def __init__(self, lines):
        self.listed = {line for line in lines if line[0] not in "#!"}
        self.kept = {line[1:] for line in lines if line[0] == "!"}
        self.unmatched = set()
        self.collected = {}
        self._above_kept = set().union(*map(names_of, self.kept))
        self.not_made = set()

    def is_quick(self, name):
        """
        Return True if the test *name* is in the quick set.
        """
        names = names_of(name)
        return not names & self.listed or bool(names & self.kept)

    def is_made(self, name):
        """
        Return True if this run collects the test *name*.
        """
        return not names_of(name) & self.not_made

    def pytest_ignore_collect(self, collection_path, config):
        """
        Do not import a file that is listed as slow, unless one of its tests is an exception.
        """
        name = collection_path.relative_to(ROOT).as_posix() if ROOT in collection_path.parents else ""
        if config.option.quick and name in self.listed and not any(line.startswith(f"{name}::") for line in self.kept):
            return True
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, collector, name):
        """
        Do not collect a class or function that is listed as slow, unless one of its tests is an exception.
        """
        name = f"{collector.nodeid}::{name}"
        if not collector.config.option.quick or name in self._above_kept or self.is_quick(name):
            return None
        self.not_made.add(name)
        return []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        """
        Omit the tests that are listed as slow and are not exceptions.
        """
        self.collected = {item.nodeid: self.is_quick(item.nodeid) for item in items}
        if not any("::" in argument for argument in config.args):
            files = {item.nodeid.partition("::")[0] for item in items}
            about = {line for line in self.listed | self.kept if line.partition("::")[0] in files}
            self.unmatched = about.difference(*map(names_of, [*self.collected, *self.not_made]))
        if config.option.quick:
            config.hook.pytest_deselected(items=[item for item in items if not self.collected[item.nodeid]])
            items[:] = [item for item in items if self.collected[item.nodeid]]


def names_of(name):
    """
    Return the names that include the test *name*: its file, class, function and case.
    """
    parts = name.partition("[")[0].split("::")
    return {name, *("::".join(parts[:end]) for end in range(1, len(parts) + 1))}


def read():
    """
    Return a QuickSet with the lines of the list of slow tests, tests/full_only.txt.
    """
    return QuickSet([line for line in LIST.read_text("utf-8").splitlines() if line])


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out the tests that tests/full_only.txt lists")


def pytest_configure(config):
    """
    Register the quick set as a plugin.
    """
    config.pluginmanager.register(read(), "quick-set")
