"""
The recipes of CONTRIBUTING.

An addition of a contributor is in every table, suite and page that lists its kind.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter

import pytest

from tickwheel import stores, wheels
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.targets import _open
from tickwheel.testing.driver_suite import DriverSuite
from tickwheel.testing.engine_suite import EngineSuite
from tickwheel.testing.store_suite import SharedStoreSuite, StoreSuite
from tickwheel.testing.target_suite import TargetSuite
from tickwheel.testing.wheel_suite import WheelSuite

THINGS = ("wheel", "target", "store", "column", "verb", "HTTP operation", "metric")


def subclasses_of(suite: str, root, folder: str) -> str:
    texts = [path.read_text("utf-8") for path in (root / folder).rglob("test_*.py")]
    return "\n".join(text for text in texts if re.search(rf"\(([\w, ]+, )?{suite}\)", text))


def test_every_thing_has_a_recipe_whose_tests_exist(root):
    """
    CONTRIBUTING has a recipe for each kind of thing, and every test that a recipe names exists.
    """
    text = (root / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Recipes\n")[2].partition("\n## ")[0]
    assert re.findall(r"^### Add an? (.+)$", text, re.MULTILINE) == list(THINGS)
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) >= len(THINGS)
    for path, name in named:
        assert f"def {name}(" in (root / path).read_text("utf-8"), f"{path} has no {name}"


@pytest.mark.parametrize("suite", [DriverSuite, EngineSuite, SharedStoreSuite, StoreSuite, TargetSuite, WheelSuite])
def test_no_test_of_a_suite_hides_another(suite):
    """
    No two base classes of a suite have a test with the same name.

    Otherwise only the first of these tests would run.
    """
    names = Counter(name for room in suite.__mro__ for name in vars(room) if name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_wheel_is_in_the_tables_and_has_a_suite(root, modules):
    """
    Each module with a `CARD` is in `wheels.MODULES`.

    The wheel class of the module is exported, is in the table, and has a suite.
    """
    having = {
        name.rpartition(".")[2]
        for name, tree in modules.items()
        if name.startswith("tickwheel.wheels.")
        and any(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CARD" for node in tree.body)
    }
    assert having == set(wheels.MODULES)
    held = subclasses_of("WheelSuite", root, "tests/wheels")
    for module, design in wheels.MODULES.items():
        made = getattr(wheels, design)
        assert design in wheels.__all__
        assert f"`{design}`" in (wheels.__doc__ or ""), f"the table of the designs has no {design}"
        assert made is importlib.import_module(f"tickwheel.wheels.{module}").CARD.make
        assert re.search(rf"\b{design}\b", held), f"no WheelSuite holds {design}"


def test_every_target_is_tested_and_described(root, modules):
    """
    Each target is described in docs/targets.md.

    It is tested by the target suite or by its own tests.
    """
    page = (root / "docs/targets.md").read_text("utf-8")
    held = subclasses_of("TargetSuite", root, "tests/scheduler/targets")
    own = {
        "HandlerTarget": "test_handler.py",
        "LogTarget": "test_examples.py",
        "PullTarget": "../../service/test_pull.py",
    }
    found = [
        node.name
        for name, tree in modules.items()
        if re.fullmatch(r"tickwheel\.targets\.[a-z]\w*", name)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Target") and node.name != "Target"
    ]
    assert len(found) >= 12
    for target in found:
        is_held = (
            re.search(rf"\b{target}\b", held) or (root / "tests/scheduler/targets" / own.get(target, "?")).is_file()
        )
        assert is_held, f"no TargetSuite holds {target}"
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", target.removesuffix("Target")).lower()
        assert target in page or re.search(rf"\b{kind}", page.lower()), f"docs/targets.md says nothing of {target}"


def test_every_target_reads_its_own_urls(modules):
    """
    Each module with a `URL_FORM` is in the table of URL schemes, under the scheme of its example URL.
    """
    having = {
        name.rpartition(".")[2]
        for name, tree in modules.items()
        if name.startswith("tickwheel.targets.")
        and any(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "URL_FORM" for node in tree.body)
    }
    assert having == set(_open.MODULES.values())
    for module in having:
        form = importlib.import_module(f"tickwheel.targets.{module}").URL_FORM
        scheme = form.example.partition(":")[0]
        assert _open.MODULES[scheme if scheme in _open.MODULES else scheme.partition("+")[0] + "+"] == module


def test_every_store_runs_the_suite(root):
    """
    The store suite is run on each kind of store that a URL can name.
    """
    held = subclasses_of("StoreSuite", root, "tests/scheduler/stores")
    rooms = {path.name for path in (root / "src/tickwheel/stores").iterdir() if (path / "__init__.py").exists()}
    assert rooms == {"postgres", "redis", "sqlite"}
    for room in (*sorted(rooms), "memory"):
        assert re.search(rf"class Test\w*{room}Store\(", held, re.IGNORECASE), f"no StoreSuite holds {room}"
        assert f"{room}://" in (stores.make_store.__doc__ or ""), f"no URL names {room}"


@pytest.mark.parametrize("face", [AsyncScheduler])
def test_async_scheduler_has_every_verb(face):
    """
    AsyncScheduler has the same methods as Scheduler, with the same parameters.
    """
    shown = {name for name, verb in inspect.getmembers(Scheduler, callable) if not name.startswith("_")}
    assert shown == {name for name, verb in inspect.getmembers(face, callable) if not name.startswith("_")}
    for name in shown:
        ours, theirs = (list(inspect.signature(getattr(each, name)).parameters) for each in (Scheduler, face))
        assert ours == theirs, name


def test_every_metric_is_shown_to_operators(root):
    """
    Each metric is named on the Grafana board or in docs/operations.md.
    """
    source = (root / "src/tickwheel/observe/prometheus.py").read_text("utf-8")
    families = set(re.findall(r'"(tickwheel_[a-z_]+)"', source))
    assert len(families) >= 13
    shown = (root / "docs/operations.md").read_text("utf-8") + (root / "deploy/grafana.json").read_text("utf-8")
    assert {family for family in families if family not in shown} == set()


@pytest.mark.parametrize(
    ("suite", "hook", "arguments"),
    [
        (WheelSuite, "make_wheel", (0,)),
        (EngineSuite, "make_engine", (None,)),
        (DriverSuite, "make_wheel", ()),
        (StoreSuite, "make_store", ()),
        (SharedStoreSuite, "make_peer", (None,)),
        (TargetSuite, "make_receiver", ()),
    ],
)
def test_a_suite_without_its_hook_fails(suite, hook, arguments):
    """
    If a subclass of a suite lacks a hook, the suite fails with an error that names the class.

    If suites were abstract classes, pytest would not report the missing hook.
    """
    forgetful = type("TestForgetful", (suite,), {})
    assert not inspect.isabstract(forgetful)
    with pytest.raises(NotImplementedError, match="TestForgetful"):
        getattr(forgetful(), hook)(*arguments)
