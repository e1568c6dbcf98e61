"""
Write the page `reference` of the site: all public names, with the first sentences of their docstrings.

    python scripts/reference.py > reference.md
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tickwheel

HELD = ("TimerWheel", "Timer", "Scheduler", "ManualClock")
"""Classes whose methods are listed, because users call them most often."""
HOLDERS = ("tickwheel", "tickwheel.scheduler", "tickwheel.testing")
SHOWN_MAX = 80


def sentence(thing: object, constant: str = "") -> str:
    """
    Return the first line of a docstring, in a form for a cell of a table.

    For a *constant*, return the first line of its documentation. For a value without a docstring, return the value.
    """
    if constant:
        return constant.strip().partition("\n")[0].replace("|", "\\|")
    if isinstance(thing, dict):
        return f"A table by name: {', '.join(f'`{name}`' for name in thing)}."
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        shown = repr(thing)
        return f"`{shown}`" if len(shown) <= SHOWN_MAX and " at 0x" not in shown else f"One `{type(thing).__name__}`."
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")


@cache
def stub() -> dict[str, dict[str, ast.FunctionDef]]:
    """
    Return the methods of native classes, by class and name, as their stub file declares them.
    """
    (path,) = (Path(folder) / "_core.pyi" for folder in tickwheel.__path__)
    classes = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
    return {each.name: {node.name: node for node in each.body if isinstance(node, ast.FunctionDef)} for each in classes}


def signature(owner: type, name: str, method: object) -> str:
    """
    Return the name, the arguments and the result of a method, with types and defaults.
    """
    node = stub().get(owner.__name__, {}).get(name)
    if node is None:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(method)))).body
    arguments = [*node.args.posonlyargs, *node.args.args]
    if arguments and arguments[0].arg in {"self", "cls"}:
        (node.args.posonlyargs or node.args.args).pop(0)
    returned = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{name}({ast.unparse(node.args).removeprefix('/, ')}){returned}".replace("|", "\\|")


def methods(held: type) -> Iterator[str]:
    """
    Yield a line for each public method of a class, in the order of its source.
    """
    for owner in reversed(held.__mro__[:-1]):
        for name in vars(owner):
            method = getattr(held, name)
            if not name.startswith("_") and callable(method) and vars(held).get(name, method) is not None:
                yield f"| `{signature(owner, name, method)}` | {sentence(method)} |"


def main() -> None:
    """
    Print the page.
    """
    path = Path(__file__).with_name("docs_site.py")
    spec = importlib.util.spec_from_file_location("docs_site", path)
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    print("# Reference\n")
    print("Every public name in a sentence; `help()` shows the rest: units, ranges, errors, cost, threads.")
    for name in site.public_modules():
        module = importlib.import_module(name)
        named = {public: getattr(module, public) for public in sorted(getattr(module, "__all__", ()))}
        if not named:
            continue
        print(f"\n## {name}\n\n| name | what it is |\n|---|---|")
        for public, thing in named.items():
            print(f"| `{public}` | {sentence(thing, site.docstring_of(public, thing))} |")
        for held in [thing for public, thing in named.items() if public in HELD and name in HOLDERS]:
            print(f"\n### {held.__name__}\n\n| call | what it does |\n|---|---|")
            print(*dict.fromkeys(methods(held)), sep="\n")


if __name__ == "__main__":
    main()
