"""
Write docs/reference.md: every public name with the first sentence of its docstring.

    python scripts/reference.py > docs/reference.md
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

MODULES = (
    "tickwheel",
    "tickwheel.wheels",
    "tickwheel.scheduler",
    "tickwheel.scheduler.targets",
    "tickwheel.scheduler.idempotency",
    "tickwheel.service",
    "tickwheel.testing",
)
HELD = ("TimerWheel", "Timer", "Scheduler", "ManualClock")
"""Classes whose methods are listed: those that users hold all day."""


def sentence(thing: object) -> str:
    """
    Return the first line of a docstring, fit for a cell of a table; of a constant, its value or the names in it.
    """
    if isinstance(thing, dict):
        return f"A table by name: {', '.join(f'`{name}`' for name in thing)}."
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        return f"`{thing!r}`"
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")


def signature(method: object) -> str:
    """
    Return the names of what a method takes, with their defaults.
    """
    parameters = [each.replace(annotation=each.empty) for each in inspect.signature(method).parameters.values()]
    shown = inspect.Signature([each for each in parameters if each.name != "self"])
    return str(shown).replace(" -> None", "")


def methods(held: type) -> Iterator[str]:
    """
    Yield a line for each public method of a class, in the order of its source.
    """
    for owner in reversed(held.__mro__[:-1]):
        for name in vars(owner):
            method = getattr(held, name)
            if not name.startswith("_") and callable(method) and vars(held).get(name, method) is not None:
                yield f"| `{name}{signature(method)}` | {sentence(method)} |"


def main() -> None:
    """
    Print the page.
    """
    print("# Reference\n")
    print("Every public name in a sentence; `help()` shows the rest: units, ranges, errors, cost, threads.")
    print("Written by `make reference`.")
    for name in MODULES:
        module = importlib.import_module(name)
        print(f"\n## {name}\n\n| name | what it is |\n|---|---|")
        for public in sorted(module.__all__):
            print(f"| `{public}` | {sentence(getattr(module, public))} |")
        for held in [getattr(module, public) for public in module.__all__ if public in HELD]:
            print(f"\n### {held.__name__}\n\n| call | what it does |\n|---|---|")
            print(*dict.fromkeys(methods(held)), sep="\n")


if __name__ == "__main__":
    main()
