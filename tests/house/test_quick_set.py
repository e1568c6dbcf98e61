"""
The quick set: its list names existing tests, and it includes the tests of each clause of docs/promise.md.
"""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest


@pytest.fixture
def quick_set(request):
    return request.config.pluginmanager.get_plugin("quick-set")


@pytest.fixture
def script(root):
    spec = importlib.util.spec_from_file_location("write_quick_set", root / "scripts" / "quick_set.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_line_names_a_test(quick_set, root):
    """
    Every line of the list of slow tests names an existing test.

    `make test-times` deletes lines that name no existing test.
    """
    files = {line.partition("::")[0] for line in quick_set.listed | quick_set.kept}
    assert [name for name in sorted(files) if not (root / name).is_file()] == []
    assert sorted(quick_set.unmatched) == []


@pytest.mark.parametrize("is_quick_run", [False, True])
def test_tests_without_a_kept_case_are_not_collected(quick_set, is_quick_run):
    """
    A quick run does not collect a class or function that is listed as slow, unless one of its tests is an exception.

    A full run collects every test.
    """
    config = SimpleNamespace(option=SimpleNamespace(quick=is_quick_run))
    lines = [
        "a.py::TestForm",
        "!a.py::TestForm::test_kept",
        "b.py::test_dear",
        "b.py::test_case[1]",
        "!b.py::test_some[1]",
    ]
    own = type(quick_set)([*lines, "b.py::test_some"])
    places = {"a.py": ["TestForm"], "a.py::TestForm": ["test_kept", "test_other"]}
    places["b.py"] = ["test_dear", "test_case", "test_some", "test_new"]
    made = [
        name
        for place, names in places.items()
        for name in names
        if own.pytest_pycollect_makeitem(SimpleNamespace(nodeid=place, config=config), name) is None
    ]
    left_out = {"test_other", "test_dear"} if is_quick_run else set()
    assert set(made) == {name for names in places.values() for name in names} - left_out


def test_a_log_of_quick_tests_adds_to_the_list(quick_set, script):
    """
    A run of only the quick tests removes no line from the list of slow tests, because it does not measure them all.

    A run of all tests of a file removes the lines of tests that no longer exist.
    """
    before = type(quick_set)(["tests/a.py::test_dear", "tests/a.py::test_gone", "tests/b.py::test_dear"])
    costs = {"tests/a.py::test_new[1]": (9.0, 9.0), "tests/a.py::test_new[2]": (0.0, 0.0)}
    found = {line for line in script.lines(costs, before) if line.startswith(("tests/a.py", "tests/b.py"))}
    assert found == before.listed | {"tests/a.py::test_new[1]"}
    kept = type(quick_set)(["tests/a.py::test_dear", "!tests/a.py::test_dear[kept]"])
    costs["tests/a.py::test_dear[kept]"] = (1.0, 1.0)
    assert set(script.lines(costs, kept)) >= {"tests/a.py::test_dear", "!tests/a.py::test_dear[kept]"}
    del costs["tests/a.py::test_dear[kept]"]
    costs["tests/a.py::test_dear"] = (9.0, 9.0)
    found = {line for line in script.lines(costs, before) if line.startswith(("tests/a.py", "tests/b.py"))}
    assert found == (before.listed | {"tests/a.py::test_new[1]"}) - {"tests/a.py::test_gone"}


def test_a_file_keeps_its_cheapest_test(quick_set, script):
    """
    If all tests of a file are costly, the cheapest one stays in the quick set.

    It is left out if it uses a second of CPU or more.
    """
    costs = {"tests/a.py::test_one": (0.9, 1.0), "tests/a.py::test_two": (0.8, 1.0), "tests/b.py::test_one": (1.1, 1.0)}
    found = {line for line in script.lines(costs, type(quick_set)([])) if line.startswith(("tests/a.py", "tests/b.py"))}
    assert found == {"tests/a.py::test_one", "tests/b.py::test_one"}


def test_tests_that_are_always_quick(quick_set, script):
    """
    Each test of the script's list of quick tests exists and is in the quick set.
    """
    quick = [name for name, is_quick in quick_set.collected.items() if is_quick]
    files = {name.partition("::")[0] for name in quick_set.collected}
    rows = [row for row in script.always() if row.partition("::")[0] in files]
    assert [row for row in rows if not any(name.startswith(row) for name in quick)] == []


def test_every_form_has_its_smoke_tests(quick_set, script):
    """
    For each variant of a store, such as the partitioned one, the quick set has at least the suite's smoke tests.
    """
    for form, classes in script.FORMS.items():
        kept = {line for line in quick_set.kept for name in script.names(classes) if line.startswith(f"{name}::")}
        assert len(kept) >= len(script.SMOKE), form


def test_the_tests_at_other_dates_exist(quick_set, root):
    """
    wall_clock.txt lists the tests that read the time of day, and each of its lines names an existing test.
    """
    listed = (root / "tests" / "wall_clock.txt").read_text("utf-8").splitlines()
    files = {name.partition("::")[0] for name in quick_set.collected}
    assert [name for name in listed if not (root / name.partition("::")[0]).is_file()] == []
    found = [name for name in listed if name.partition("::")[0] in files and quick_set.is_made(name)]
    functions = {name.partition("[")[0] for name in quick_set.collected}  # cases are missing where their data are
    assert [name for name in found if name.partition("[")[0] not in functions] == []
