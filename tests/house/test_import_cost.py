"""
Modules that `import tickwheel` does not load, because most programs do not use them.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "importlib.metadata",
    "inspect",
    "logging",
    "socket",
    "ssl",
    "subprocess",
}
LATER = (
    ("tickwheel.TimerWheel", "tickwheel._core"),
    ("tickwheel.errors", "tickwheel.errors"),
    ("tickwheel.AsyncioDriver", "asyncio"),
    ("tickwheel.TaskExecutor", "asyncio"),
    ("tickwheel.ended", "asyncio"),
    ("tickwheel.within", "asyncio"),
    ("tickwheel.run", "asyncio"),
    ("tickwheel.Scheduler", "tickwheel.scheduler"),
    ("tickwheel.TTLCache", "tickwheel.cache"),
    ("tickwheel.task", "tickwheel.scheduler"),
    ("tickwheel.scheduler.AsyncScheduler", "asyncio"),
    ("tickwheel.__version__", "importlib.metadata"),
    ("tickwheel.drivers.executors.TaskExecutor", "asyncio"),
    ("tickwheel.wheels.CARDS", "tickwheel.wheels._cards"),
)


def loaded_by(statements: str) -> set[str]:
    script = f"import sys; before = set(sys.modules); {statements}; print(*(set(sys.modules) - before))"
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


@pytest.mark.parametrize(
    "statements",
    [
        "import tickwheel",
        "import tickwheel; tickwheel.TimerWheel().call_later(60, print).cancel()",
        "import tickwheel; tickwheel.with_timeout(tickwheel.background(tickwheel.TimerWheel()), 60).cancel()",
    ],
    ids=["import", "a timer", "a context"],
)
def test_import_loads_nothing_heavy(statements):
    """
    Importing tickwheel and setting a timer on a thread loads neither asyncio nor any other costly module.
    """
    assert loaded_by(statements) & HEAVY == set()


def test_another_design_loads_nothing_heavy():
    """
    A wheel of a different design loads `dataclasses`, which its `CARD` needs.

    The wheel loads neither asyncio nor any other costly module.
    """
    statements = "from tickwheel.wheels import HeapWheel; import tickwheel; tickwheel.TimerWheel(wheel=HeapWheel())"
    assert loaded_by(statements) & (HEAVY - {"dataclasses", "inspect"}) == set()


def test_a_scheduler_loads_only_needed_modules():
    """
    A program that sets jobs loads no event loop, no engine, no client of a service, and no decoder of tasks.
    """
    statements = "from tickwheel.scheduler import Scheduler; Scheduler('memory://').set('k', delay=1, handler='h')"
    loaded = loaded_by(statements)
    heavy = {"asyncio", "email", "ssl", "subprocess", "importlib.metadata", "uuid", "tempfile", "msgspec", "aiohttp"}
    assert loaded & heavy == set()
    rooms = {".".join(name.split(".")[:3]) for name in loaded if name.startswith("tickwheel.")}
    assert rooms & {"tickwheel.remote._core", "tickwheel.engine.engine", "tickwheel.engine._dispatch"} == set()


def test_import_loads_no_subpackage():
    """
    `import tickwheel` alone loads only `tickwheel` and `tickwheel._later`.

    It loads no subpackage and no native module.
    """
    assert {name for name in loaded_by("import tickwheel") if name.startswith("tickwheel")} == {
        "tickwheel",
        "tickwheel._later",
    }


def test_timers_load_no_design_of_a_wheel():
    """
    Importing TimerWheel loads the protocol of wheels.

    It does not load any wheel that is written in Python, `ShardedWheel` or trio.
    """
    loaded = loaded_by("from tickwheel import TimerWheel")
    assert {name for name in loaded if name.startswith("tickwheel.wheels.")} == {"tickwheel.wheels.contract"}
    assert loaded & {"random", "tickwheel.drivers._shards", "tickwheel.drivers._trio"} == set()


@pytest.mark.parametrize("package", ["tickwheel", "tickwheel.drivers", "tickwheel.scheduler", "tickwheel.wheels"])
def test_names_are_listed_before_they_are_used(package):
    """
    `dir` of a package lists all its public names, even those that are not loaded yet.

    So a shell can complete them.
    """
    script = f"import {package} as package; print(*sorted(set(package.__all__) - set(dir(package))))"
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


@pytest.mark.parametrize(("name", "module"), LATER)
def test_a_name_loads_its_module(name, module):
    """
    A public name is loaded with its module on first use, not when its package is imported.
    """
    package, _, attribute = name.rpartition(".")
    loaded_by(f"import {package}; assert {package}.{attribute}; assert {module!r} in sys.modules, sorted(sys.modules)")
    assert module not in loaded_by(f"import {package}")


@pytest.mark.parametrize(
    "package", ["tickwheel", "tickwheel.drivers", "tickwheel.drivers.executors", "tickwheel.wheels"]
)
def test_a_missing_name_is_an_attribute_error(package):
    """
    If a package lacks a name, the AttributeError names the package and the name.
    """
    module = __import__(package, fromlist=["nothing"])
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing
