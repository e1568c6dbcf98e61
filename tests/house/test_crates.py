"""
The Rust code: the allowed imports between modules, and the reasons for `unsafe`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tickwheel import _core

ROOMS = ("cpython", "timers", "cache", "aio")
# Lowest first. The other modules are above these, and do not import each other.
FOUNDATION = ("memory", "once", "json", "system_clock", "clock", "cpython")
NO_REASON = re.compile(r"(?i)\bas (above|below|before|the caller says)\b|\bas (in )?`\w+`[.;,]|\blikewise\b")
# The types that change behind a shared reference, and the traits by which threads may share them.
CELL = re.compile(r"\b(?:std|core)::cell\b|\b(?:SyncUnsafe|Unsafe|Ref|Once|Lazy)?Cell\b")
SHARED = re.compile(r"\bunsafe impl\b[^{]*\bSync for (\w+)")
# Functions of the interpreter that run no Python, and never wait for the GIL, or do so in a way that PyO3 has seen to.
RUNS_NO_PYTHON = re.compile(
    r"PyBool_FromLong|PyCMethod_New|PyCallable_Check|PyContext_Enter|PyContext_Exit|PyDescr_NewMethod|PyDict_Next|"
    r"PyErr_ExceptionMatches|PyErr_Fetch|PyErr_GetHandledException|PyErr_GetRaisedException|PyErr_GivenExceptionMatches|"
    r"PyErr_NewExceptionWithDoc|PyErr_NoMemory|PyErr_Occurred|PyEval_SaveThread|PyException_GetTraceback|"
    r"PyFloat_FromDouble|PyGILState_Release|PyInterpreterState_Get|PyInterpreterState_GetID|PyList_Append|"
    r"PyLong_AsUnsignedLongLong|PyLong_FromLong|PyLong_FromSsize_t|PyLong_FromUnsignedLongLong|PyMem_Free|PyMem_Malloc|"
    r"PyMethod_Function|PyModuleDef_Init|PyModule_GetDict|PyModule_GetNameObject|PyObject_Free|PyObject_GC_Del|"
    r"PyObject_GC_IsTracked|PyObject_GC_Track|PyObject_GC_UnTrack|PyObject_GenericGetDict|PyObject_Init|"
    r"PyObject_SelfIter|PySequence_Check|PyThreadState_Get|PyThreadState_GetDict|PyThread_get_thread_ident|"
    r"PyTuple_GetItem|PyType_FromSpec|PyType_FromSpecWithBases|PyType_GetFlags|PyType_GetModuleName|PyType_GetName|"
    r"PyType_GetQualName|PyType_IsSubtype|PyType_Modified|PyUnicode_AsEncodedString|PyUnicode_AsUTF8AndSize|"
    r"PyUnicode_Compare|PyUnicode_EqualToUTF8AndSize|PyUnicode_FromStringAndSize|PyUnicode_InternInPlace|Py_IsFinalizing|"
    r"_PyLong_AsByteArray|_PyLong_FromByteArray|"  # of an exact int
    r"Py_IsInitialized|_Py_CheckFunctionResult|PyEval_RestoreThread|PyGILState_Ensure"
)


@pytest.fixture(scope="module")
def bindings(root) -> dict[str, str]:
    """
    Return the text of every module of the binding crate, by the module's path, such as "timers::engine".
    """
    source = root / "crates/python/src"
    return {"::".join(path.relative_to(source).with_suffix("").parts): path.read_text("utf-8") for path in rust(source)}


def rust(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.rs"))
    assert found
    return found


def uses(text: str, names: set[str]) -> set[str]:
    """
    Return the modules that a source text names in a `use` or in a path.
    """
    paths = re.findall(r"\bcrate::((?:\w+::)*\w+)", text)
    for room, group in re.findall(r"\bcrate::(\w+)::\{([^}]*)\}", text):
        paths += [f"{room}::{name.strip()}" for name in group.split(",")]
    found = set()
    for path in paths:
        parts = path.split("::")
        known = ["::".join(parts[:depth]) for depth in (2, 1) if "::".join(parts[:depth]) in names]
        found |= set(known[:1])
    return found


def test_the_bindings_have_no_import_cycle(bindings):
    """
    The modules of the binding crate can be ordered so that each module imports only earlier modules.
    """
    graph = {name: uses(text, set(bindings)) - {name} for name, text in bindings.items()}
    assert graph["timers::set"] >= {"timers::engine", "cpython::cell", "clock"}, "what is used is found"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_parts_of_the_bindings_do_not_import_each_other(bindings):
    """
    Timers, cache and aio import the foundation, but not each other.

    A module of the foundation imports only lower modules.
    """
    wrong = []
    for name, text in bindings.items():
        room = name.split("::")[0]
        if room == "lib":
            continue
        allowed = FOUNDATION[: FOUNDATION.index(room)] if room in FOUNDATION else FOUNDATION
        others = {used.split("::")[0] for used in uses(text, set(bindings))} - {room, *allowed}
        wrong += [f"{name} knows {other}" for other in sorted(others)]
    assert wrong == []
    assert {name.split("::")[0] for name in bindings} == {*ROOMS, *FOUNDATION, "lib"}


def test_every_unsafe_has_its_own_reason(root):
    """
    No SAFETY comment or Safety section refers to another one.

    Clippy checks that each unsafe block has a comment.
    """
    wrong = []
    for path in rust(root / "crates"):
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            reason = line.partition("SAFETY:")[2]
            if line.strip().endswith("# Safety"):
                reason = lines[number + 1].strip().removeprefix("///")
            if NO_REASON.search(reason):
                wrong.append(f"{path.relative_to(root)}:{number}: {reason.strip()}")
    assert wrong == []
    assert 'undocumented_unsafe_blocks = "warn"' in (root / "Cargo.toml").read_text("utf-8")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems unwind no thread that ends")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the interpreter ends no thread")
@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed: install binutils")
def test_functions_that_may_run_python_have_wrappers(bindings):
    """
    Each interpreter function that the native core imports has a wrapper in `parking.rs`, or runs no Python code.
    """
    parked = set(re.findall(r"(?m)^ {4}fn (\w+)\(", bindings["cpython::parking"]))
    listed = subprocess.run(["nm", "--dynamic", _core.__file__], capture_output=True, text=True, check=True).stdout
    taken = set(re.findall(r"(?m) U (\w+)", listed))
    functions = {name for name in taken if re.fullmatch(r"_?Py(?!Exc_)\w+(?<!_Type)(?<!Struct)", name)}
    assert "PyObject_Vectorcall" in functions, "what is taken is found"
    harmless = {name for name in functions if RUNS_NO_PYTHON.fullmatch(name)}
    assert functions - parked - harmless == set(), "enter it in cpython/parking.rs, or here"
    assert parked & harmless == set()
    assert not {name for name in taken if name.startswith("__real_")}, "the linker knows --wrap"


def test_nothing_static_is_mutable(root):
    """
    There is no `static mut`.

    Mutable state is in an atomic, a `OnceLock` or a `GilCell`.
    """
    assert [str(path) for path in rust(root / "crates") if "static mut" in path.read_text("utf-8")] == []


def cells(text: str) -> list[str]:
    """
    Return the lines that name a cell type of the standard library.

    Thread-local cells are ignored.
    """
    lines = (line.partition("//")[0].strip() for line in text.splitlines())
    return [line for line in lines if CELL.search(line) and not line.startswith("thread_local!")]


def test_shared_state_is_in_a_gil_cell(bindings):
    """
    The bindings use no cell type of the standard library, except inside `GilCell`.
    """
    assert cells("static ENGINES: Numbers = Numbers(UnsafeCell::new(Vec::new()));"), "what is named is found"
    found = {name: cells(text) for name, text in bindings.items()}
    assert found.pop("cpython::cell"), "it is where GilCell is"
    assert {name: lines for name, lines in found.items() if lines} == {}
    shared = {(name, kind) for name, text in bindings.items() for kind in SHARED.findall(text)}
    # A table is never written.
    assert shared == {("cpython::cell", "GilCell"), ("cpython::type_builder", "Table")}


def test_the_core_is_safe_and_knows_no_python(root):
    """
    `crates/wheel` forbids `unsafe` and has no dependencies.
    """
    assert "#![forbid(unsafe_code)]" in (root / "crates/wheel/src/lib.rs").read_text("utf-8")
    assert "[dependencies]" not in (root / "crates/wheel/Cargo.toml").read_text("utf-8")
