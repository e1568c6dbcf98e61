"""
Names of a package that are imported when they are first used, so that `import tickwheel` stays cheap (PEP 562).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["later"]


def later(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """
    Return a `__getattr__` for *package* that imports a name's module on first use, and keeps the name from then on.

    Args:
        package: The dotted name of the package.
        homes: The module that each name lies in, by the name.
    """

    def import_on_use(name: str) -> object:
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_on_use
