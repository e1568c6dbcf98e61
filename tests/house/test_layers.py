"""
The allowed imports between modules, as ARCHITECTURE.md draws them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest

# Lowest first. A package may import packages of lower layers, but none of its own layer.
LAYERS = (
    (
        "clock",
        "errors",
        "typing",
        "threads",
        "futures",
        "loops",
        "_later",
        "_version",
        "observe.events",
        "observe.tracing",
        "_core",
    ),
    ("wheels", "calendar"),
    ("timers",),
    ("jobs", "drivers"),
    ("stores", "targets"),
    ("host",),
    ("engine", "client", "remote"),
    ("scheduler", "aio", "cache", "observe"),
    ("service", "lab", "integrations"),
    ("cli",),
)
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}
# Modules of the lowest layer may import these other modules of that layer.
FOUNDATION = {
    "errors": set(),
    "typing": set(),
    "_later": set(),
    "_version": set(),
    "_core": set(),
    "threads": set(),
    "futures": {"threads"},
    "loops": {"futures", "threads"},
    "clock": {"errors", "typing", "_core"},
    "observe.events": {"errors", "clock", "typing", "_core"},
    "observe.tracing": {"observe.events"},
}
# Packages whose public modules are alternatives: each may import `jobs` and its contract, but no other alternative.
ALTERNATIVES = ("stores", "targets")
# The modules that import all alternatives, to choose one by its name.
CHOOSERS = {"stores._open", "stores", "targets._open", "targets"}
# The packages that form the scheduler.
SCHEDULER = ("jobs", "stores", "targets", "host", "engine", "client", "remote", "scheduler")
# The scheduler's modules that use time, threads or random numbers directly instead of through its runtime, and the
# reasons. The list may only become shorter, because the simulation has to replace each of these modules as a whole.
OWN_TIME = {
    "host.runtime": "all other modules get them from here",
    "scheduler.idempotency": "it runs in the receiver of a job, which has no scheduler",
    "scheduler.migration": "it is a command, which copies one store into another while no engine runs",
    "remote": "it is the client of a service: its time is that of the network",
    "stores": "a store waits for its server or its file; the simulation has stores of its own",
    "scheduler._dropped": "it runs in the collector, when the scheduler and its runtime are gone",
    "targets._breaker": "a server's pause is measured by the real clock, whatever the scheduler's clock is",
    "targets._processes": "its children are real processes, with the system's clock",
    "targets._task": "if the caller gives no key, a random one is drawn in the caller's process",
    "targets._threads": "it runs real libraries that block, in real threads",
    "targets.kafka": "its library is polled by a thread",
}
OWN_TIME_MAX = 11
TIME_THREADS_CHANCE = {"tickwheel.threads", "time", "threading", "_thread", "random", "secrets", "uuid", "queue"}
MADE_BY_GEVENT = {
    f"threading.{name}" for name in ("Lock", "RLock", "Event", "Condition", "Semaphore", "Barrier", "Thread", "Timer")
} | {"_thread.allocate_lock", "_thread.start_new_thread", "queue.Queue", "asyncio.run_coroutine_threadsafe"}
NEVER_PATCHED = {"cli", "lab", "service", "testing", "threads"}
WAITED_FOR_BY_CALLERS = {"cache._flight", "wheels.delay_queue"}
"""Modules in which greenlets wait for each other. They use the locks that gevent replaces."""
# For every third-party library, the one package, or one module, that imports it. A comment gives the reason for a
# package.
THIRD_PARTY = {
    "click": "cli",  # one command a file, each of them a click command
    "rich": "cli",  # as click
    "starlette": "service",  # routes, requests and responses are of its types
    "msgspec": "service",  # bodies are its structs, read by its decoders
    "psycopg": "stores",  # one module opens connections, and another derives a class from its connection
    "django": "integrations",  # it finds models, admin and commands by the names of their modules
    "pytest": "testing",  # the suites are pytest classes
    "hypothesis": "testing",  # the state machines are its machines
}
# One more module that imports a library, and the reason.
BESIDES = {
    "msgspec": "scheduler._codec",  # the arguments of tasks are read by their annotations
    "aiohttp": "service.peers",  # it forwards requests between nodes, and delivers no webhook
    "click": "integrations.flask",  # Flask's commands are click's
    "starlette": "integrations.fastapi",  # FastAPI's and Starlette's applications are its own
    "redis": "cli.apscheduler",  # it reads what APScheduler left in a Redis, not a store of ours
}


@cache
def imports_of(name: str, tree: ast.Module) -> set[str]:
    """
    Return the dotted names that a module imports, at its top level and inside functions.

    For `from a import b`, the name is "a.b".
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively: write the whole name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def resolved(target: str, modules: dict[str, ast.Module]) -> str | None:
    """
    Return the module that contains an imported name, without the leading "tickwheel.".

    Return None if it is not a module of tickwheel.
    """
    if target.split(".", maxsplit=1)[0] != "tickwheel":
        return None
    while target not in modules and target != "tickwheel._core":
        target = target.rpartition(".")[0]
    return target.removeprefix("tickwheel").removeprefix(".")


def room_of(module: str) -> str:
    return module if module in HEIGHT else module.split(".", maxsplit=1)[0]


def internal_imports(modules: dict[str, ast.Module]) -> list[tuple[str, str]]:
    """
    Return every import inside the package as (importer, imported), without the leading "tickwheel.".
    """
    return [
        (name.removeprefix("tickwheel").removeprefix("."), target)
        for name, tree in modules.items()
        for target in {resolved(found, modules) for found in imports_of(name, tree)}
        if target is not None
    ]


def is_allowed(importer: str, imported: str) -> bool:
    above, below = room_of(importer), room_of(imported)
    if above in {"", "testing"} or above == below:  # `tickwheel` itself and `testing` are in no layer
        return True
    if below not in HEIGHT:  # `tickwheel` itself, or `testing`
        return False
    if above in FOUNDATION:
        return below in FOUNDATION[above]
    return HEIGHT[above] > HEIGHT[below]


def test_every_package_has_a_layer(modules):
    """
    Every module belongs to a package or module in the table of layers.

    So every import is checked.
    """
    rooms = {room_of(name.removeprefix("tickwheel").removeprefix(".")) for name in modules}
    assert rooms - set(HEIGHT) == {"", "testing"}


def test_the_layers_are_those_of_architecture(root):
    """
    ARCHITECTURE draws the same layers as the table of this test.
    """
    text = (root / "ARCHITECTURE.md").read_text("utf-8")
    lines = text.partition("\n## Layers\n")[2].split("```")[1].strip().splitlines()
    shown = [{name.removeprefix("tickwheel.") for name in line.split()} for line in lines]
    assert shown[::-1] == [set(layer) - {"_later", "_version"} for layer in LAYERS]


def test_higher_imports_lower(modules):
    """
    A package imports only from lower layers.

    It does not import from its own layer, from `testing` or from `tickwheel` itself.
    """
    wrong = [
        f"{a or 'tickwheel'} imports {b or 'tickwheel'}" for a, b in internal_imports(modules) if not is_allowed(a, b)
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ALTERNATIVES)
def test_stores_and_targets_do_not_import_each_other(modules, package):
    """
    A store or target imports `jobs` and the contract of stores or targets.

    It imports no other store or target, and not the engine.
    """
    wrong = []
    for importer, imported in internal_imports(modules):
        if importer.partition(".")[0] != package or importer in CHOOSERS or room_of(imported) not in SCHEDULER:
            continue
        room = ".".join(importer.split(".")[:2])
        shared = room_of(imported) == "jobs" or imported in {package, f"{package}.contract"}
        if not shared and not imported.startswith((f"{package}._", room)):
            wrong.append(f"{importer} imports {imported}")
    assert wrong == []


def private_imports(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """
    Return every (importer, module) whose module is private to another package.

    A module is also private if a package that contains it is private. The `__init__` of a package may import the
    modules inside, because it decides which names are public.
    """
    packages = {name.rpartition(".")[0] for name in modules}
    found = set()
    for name, tree in modules.items():
        for target in imports_of(name, tree):
            parts = target.split(".")
            private = [at for at, part in enumerate(parts) if part.startswith("_") and part.strip("_") and at]
            if parts[0] != "tickwheel" or not private or parts[1] == "_core":
                continue
            owner = ".".join(parts[: private[0]])
            is_inside = f"{name}.".startswith(f"{owner}.")
            is_front_page = name in packages and owner.startswith(name)
            if not is_inside and not is_front_page:
                found.add((name.removeprefix("tickwheel."), ".".join(parts[1 : private[0] + 1])))
    return found


def test_private_modules_stay_in_their_package(modules):
    """
    A module whose name begins with an underscore is imported only within its own package.
    """
    found = [f"{importer} imports {imported}" for importer, imported in sorted(private_imports(modules))]
    assert found == [], "name it without the underscore, or move what is shared"


def test_the_scheduler_takes_time_threads_and_chance_from_its_runtime(modules):
    """
    Only the modules that this test lists import `time`, `threading`, `random` or the like.

    All other modules of the scheduler take time, threads and random numbers from the scheduler's runtime.
    """
    used, wrong = set(), []
    for name, tree in modules.items():
        found = {
            each
            for target in imports_of(name, without_types(tree))
            for each in TIME_THREADS_CHANCE
            if f"{target}.".startswith(f"{each}.")
        }
        if room_of(name.removeprefix("tickwheel.")) not in SCHEDULER or not found:
            continue
        module = name.removeprefix("tickwheel.")
        listed = {each for each in OWN_TIME if f"{module}.".startswith(f"{each}.")}
        used |= listed
        if not listed:
            wrong.append(f"{module} imports {', '.join(sorted(found))}: take it from the Runtime")
    assert wrong == []
    assert used == set(OWN_TIME), "remove modules from the list that no longer need it"
    assert len(OWN_TIME) <= OWN_TIME_MAX


def test_no_import_cycle(modules):
    """
    The modules can be ordered so that each module imports only earlier modules.

    Imports for annotations do not count.
    """
    graph = {name: runtime_imports(name, tree, modules) - {name} for name, tree in modules.items()}
    assert "tickwheel.timers.engine" in graph["tickwheel.drivers._timer_wheel"], "what is imported is found"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def runtime_imports(name: str, tree: ast.Module, modules: dict[str, ast.Module]) -> set[str]:
    """
    Return the modules of tickwheel that a module imports when it runs, at its top level or inside a function.
    """
    found = {resolved(target, modules) for target in imports_of(name, without_types(tree))}
    return {f"tickwheel.{target}".rstrip(".") for target in found if target is not None} & set(modules)


@cache
def without_types(tree: ast.Module) -> ast.Module:
    """
    Return the module without its `if TYPE_CHECKING:` blocks.
    """
    return ast.Module([node for node in tree.body if not is_for_types(node)], [])


def is_for_types(node: ast.stmt) -> bool:
    """
    Return whether a statement is `if TYPE_CHECKING:`.
    """
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_one_library_one_module(modules):
    """
    A third-party library is imported in only one module, or only in the package that the table of this test allows.
    """
    users = defaultdict(set)
    for name, tree in modules.items():
        for target in imports_of(name, tree):
            library = target.split(".")[0]
            if library not in sys.stdlib_module_names and library not in {"tickwheel", "__future__"}:
                users[library].add(name.removeprefix("tickwheel."))
    for library, all_users in users.items():
        package, where = THIRD_PARTY.get(library), all_users - {BESIDES.get(library)}
        strays = {name for name in where if package is None or name.split(".")[0] != package}
        assert len(where) == 1 or not strays, f"{library} is imported by {sorted(where)}"


@pytest.mark.parametrize(
    "module",
    [
        *("", "drivers", "aio", "cache", "scheduler", "observe"),
        *("integrations.django", "integrations.fastapi", "integrations.flask"),
    ],
)
def test_no_third_party_on_import(module):
    """
    Importing tickwheel, or one of these subpackages, loads no third-party library.
    """
    name = f"tickwheel.{module}".rstrip(".")
    script = f"import sys; before = set(sys.modules); import {name}; print(*(set(sys.modules) - before))"
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in answer.stdout.split()}
    # Modules of the standard library that `stdlib_module_names` lacks: one is named after the system, and the other
    # lists what a distribution left out.
    loaded = {name for name in loaded if not name.startswith("_sysconfigdata")} - {"_missing_stdlib_info"}
    assert loaded - set(sys.stdlib_module_names) == {"tickwheel"}


def test_threads_are_those_of_the_system(modules):
    """
    Only the modules in `WAITED_FOR_BY_CALLERS` make locks that gevent replaces.

    All other modules that may run under gevent take their locks from `tickwheel.threads`.
    """
    made = {
        name.removeprefix("tickwheel.")
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) in MADE_BY_GEVENT
    }
    assert {name for name in made if room_of(name) not in NEVER_PATCHED} == WAITED_FOR_BY_CALLERS
