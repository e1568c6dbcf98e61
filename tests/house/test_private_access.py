"""
Tests observe the package through its methods and events.

The number of accesses to private attributes may only fall.
"""

from __future__ import annotations

import ast
import asyncio
import os
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
MOST = {
    "aio": 7,
    "cache": 31,
    "cli": 2,
    "conformance": 1,
    "drivers": 21,
    "prove": 18,
    "scheduler": 57,
    "service": 10,
    "timers": 19,
}
"""
Maximum number of lines in each folder that access a private attribute. When the real number falls, lower it here.
"""
OTHERS = {*dir(os), *dir(asyncio.TimerHandle), *dir(asyncio.BaseEventLoop), *dir(asyncio.Task)}
OTHERS |= {"_scheduled", "_source_traceback", "_log_destroy_pending"}
"""Private names that are not this package's: those of `os`, and of asyncio's classes, which our loop derives from."""


def private_lines(tree):
    """
    Return the lines of *tree* that access a private attribute.

    Attributes of classes in the same file do not count.
    """
    nodes = list(ast.walk(tree))
    classes = [each for node in nodes if isinstance(node, ast.ClassDef) for each in ast.walk(node)]
    own = {each.name for each in classes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    own |= {each.attr for each in classes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)}
    own |= {each.id for each in classes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return {
        node.lineno
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own | OTHERS
        and ast.unparse(node.value) not in {"self", "cls", "super()"}
    }


def test_private_attributes_are_accessed_less_and_less():
    """
    No folder has more lines with private attributes than `MOST` allows.
    """
    found = Counter()
    for path in TESTS.rglob("*.py"):
        found[path.relative_to(TESTS).parts[0]] += len(private_lines(ast.parse(path.read_text("utf-8"))))
    assert {folder: count for folder, count in found.items() if count > MOST.get(folder, 0)} == {}


def test_an_access_is_found():
    """
    An access to a private attribute of any object except `self` is found, unless a class of the file has the attribute.
    """
    text = "class A:\n    def f(self): self._a = b._c\nA()._a\nd.e()._f\nos._exit(0)\ng.__dict__"
    assert private_lines(ast.parse(text)) == {2, 4}
