"""
What `import tickwheel` does not load, because most programs would pay for it and never use it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"asyncio", "concurrent.futures", "ctypes", "importlib.metadata", "logging", "socket", "ssl", "subprocess"}
LATER = (
    ("tickwheel.AsyncioDriver", "asyncio"),
    ("tickwheel.TaskExecutor", "asyncio"),
    ("tickwheel.ended", "asyncio"),
    ("tickwheel.within", "asyncio"),
    ("tickwheel.run", "asyncio"),
    ("tickwheel.__version__", "importlib.metadata"),
    ("tickwheel.drivers.executors.TaskExecutor", "asyncio"),
    ("tickwheel.wheels.CARDS", "tickwheel.wheels._cards"),
)


def loaded_by(statements: str) -> set[str]:
    """
    Return the modules that *statements* load into a fresh interpreter.
    """
    script = f"import sys; before = set(sys.modules); {statements}; print(*(set(sys.modules) - before))"
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


@pytest.mark.parametrize(
    "statements",
    [
        "import tickwheel",
        "import tickwheel; tickwheel.TimerWheel().call_later(60, print).cancel()",
        "from tickwheel.wheels import HeapWheel; import tickwheel; tickwheel.TimerWheel(wheel=HeapWheel())",
    ],
    ids=["import", "a timer", "another design"],
)
def test_import_loads_nothing_heavy(statements):
    """
    Importing tickwheel and setting a timer on a thread load neither asyncio nor the other costly modules.
    """
    assert loaded_by(statements) & HEAVY == set()


def test_import_loads_no_design_of_a_wheel():
    """
    Importing tickwheel loads the protocol of wheels, and no design in Python.
    """
    wheels = {name for name in loaded_by("import tickwheel") if name.startswith("tickwheel.wheels.")}
    assert wheels == {"tickwheel.wheels._contract"}


@pytest.mark.parametrize(("name", "module"), LATER)
def test_a_name_loads_its_module(name, module):
    """
    A name that is left out by the import is there when it is used, and loads what it needs then.
    """
    package, _, attribute = name.rpartition(".")
    assert module in loaded_by(f"import {package}; {package}.{attribute}; assert {package}.{attribute}")
    assert module not in loaded_by(f"import {package}")


@pytest.mark.parametrize(
    "package", ["tickwheel", "tickwheel.drivers", "tickwheel.drivers.executors", "tickwheel.wheels"]
)
def test_a_missing_name_is_an_attribute_error(package):
    """
    A name that a package does not have is an AttributeError which names both.
    """
    module = __import__(package, fromlist=["nothing"])
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing
