"""
The public part of the package: `__all__`, docstrings, and the tree of errors.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys

import pytest

from tickwheel import errors
from tickwheel.jobs import errors as scheduler_errors

QUESTION = re.compile(r"(What|Whether|Who|Which|Where|When|How|Whose|Why)\b")


@pytest.fixture(scope="module")
def site(root):
    """
    Return the script of the documentation site as a module, because it lists the modules that users import.
    """
    spec = importlib.util.spec_from_file_location("docs_site", root / "scripts/docs_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_public(name: str) -> bool:
    """
    Return True if no part of a dotted name is private.
    """
    return not any(part.startswith("_") for part in name.split("."))


def is_named(module: ast.Module, wanted: str) -> bool:
    """
    Return True if *wanted* is assigned at the top level of a module.
    """
    targets = [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    return any(isinstance(target, ast.Name) and target.id == wanted for target in targets)


def test_every_public_module_has_all(modules):
    """
    Every public module that defines a name has an `__all__`.
    """
    defines = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ImportFrom)
    bare = [
        name
        for name, tree in modules.items()
        if is_public(name) and any(isinstance(node, defines) for node in tree.body) and not is_named(tree, "__all__")
    ]
    assert bare == []


def test_every_public_module_has_a_docstring(modules, site):
    assert [name for name in site.public_modules() if not ast.get_docstring(modules[name])] == []


def test_names_in_all_exist(modules):
    """
    Every name in `__all__` is a name of its module.
    """
    for name, tree in modules.items():
        if is_public(name) and is_named(tree, "__all__"):
            module = importlib.import_module(name)
            assert [public for public in module.__all__ if not hasattr(module, public)] == [], name


def test_public_names_are_documented(modules, site):
    """
    Every class and function that users import has a docstring. So has every public method of such a class.

    Names in `__all__` of an internal module need no docstring.
    """
    wrong = []
    contracts = documented_by_contracts(modules)
    for name in site.public_modules():
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                wrong += [f"{name}.{path}" for path in undocumented(public, thing, contracts)]
    assert wrong == []


def test_docstrings_open_with_a_statement(modules):
    """
    No docstring of a module, class or function begins with a bare question word.
    """
    found = [
        f"{name}.{getattr(node, 'name', '')}: {line}"
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if not getattr(node, "name", "").startswith("test_")
        if QUESTION.match(line := (ast.get_docstring(node) or "").partition("\n")[0])
    ]
    assert found == []


def undocumented(path: str, thing: object, contracts: set[str]) -> list[str]:
    """
    Return the dotted paths of *thing* and its public methods, own or inherited, that lack a docstring.

    Tests, and methods that a contract documents, need none.
    """
    found = [] if inspect.getdoc(thing) else [path]
    bases = thing.__mro__ if inspect.isclass(thing) else ()
    members = [item for base in bases if base.__module__.startswith("tickwheel") for item in vars(base).items()]
    for name, member in members:
        is_ours = is_public(name) and name not in contracts and not name.startswith("test_")
        if is_ours and (inspect.isroutine(member) or isinstance(member, property)):
            found += [] if inspect.getdoc(getattr(thing, name)) else [f"{path}.{name}"]
    return found


def documented_by_contracts(modules: dict[str, ast.Module]) -> set[str]:
    """
    Return the names of the methods that have a docstring in a protocol or another class of a contract.
    """
    classes = [
        node
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        if name.endswith(".contract") or any("Protocol" in ast.unparse(base) for base in node.bases)
    ]
    return {
        node.name
        for each in classes
        for node in each.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node)
    }


def test_the_reference_lists_every_public_name(root):
    """
    The reference has a line for each name that its modules export.

    It has no other lines.
    """
    command = [sys.executable, "-P", str(root / "scripts" / "reference.py")]
    text = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True).stdout
    sections = re.findall(r"^## (tickwheel[.\w]*)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    listed = {name: set(re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)) for name, body in sections}
    assert listed == {name: set(importlib.import_module(name).__all__) for name in listed}
    rooms = ("aio", "cache", "observe.events", "scheduler", "jobs.recurrence", "stores", "testing")
    assert {"tickwheel", *(f"tickwheel.{room}" for room in rooms)} <= set(listed)
    assert "| `restart(delay: Seconds, /) -> bool` |" in text, "signatures have their types"


@pytest.mark.parametrize("module", [errors, scheduler_errors], ids=lambda module: module.__name__)
def test_the_error_tree_is_drawn(module):
    """
    The docstring of an errors module draws each of the module's classes below its base class.

    It draws no other class.
    """
    drawn = {}
    stack: list[tuple[int, str]] = []
    for line in module.__doc__.splitlines():
        match = re.match(r"( +)([A-Z]\w+Error)\b *(\w+Error)?", line)
        if match:
            indent, name, other = len(match[1]), match[2], match[3]
            while stack and stack[-1][0] >= indent:
                stack.pop()
            drawn[name] = {parent for parent in (stack[-1][1] if stack else None, other) if parent}
            stack.append((indent, name))
    real = {name: {base.__name__ for base in vars(module)[name].__bases__} for name in module.__all__}
    assert set(drawn) | {"TickwheelError"} == set(real) | {"TickwheelError"}
    for name in set(real) - {"TickwheelError"}:
        assert drawn[name] == real[name], name


def test_the_base_error_is_never_raised():
    """
    The base class of all errors cannot be instantiated.
    """
    with pytest.raises(TypeError, match="base class"):
        errors.TickwheelError("anything")
