"""
The check of built wheels finds every kind of damage.

If a wheel cannot be tested, `make wheels` fails.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tickwheel import _core

pytest.importorskip("elftools", reason="pyelftools is not installed: requirements/dev.txt has it")

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "scripts" / "check_wheels.py"
TAG = "cp311-cp311-macosx_11_0_arm64"
NATIVE = "tickwheel/_core.cpython-311-darwin.so"
INFO = "tickwheel-1.0.dist-info"
FAKE = """#!/bin/sh
case "$0 $*" in
    *rustc*) echo /nowhere ;;
    *maturin*) touch "$(eval echo '${'$#'}')/tickwheel-1.0-cp311-cp311-manylinux_2_17_MACHINE.whl" ;;
    *venv*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    *smoke.py*) echo tried ;;
esac
"""


@pytest.fixture(scope="module")
def check() -> ModuleType:
    """
    Return the script that checks wheels, as a module.
    """
    spec = importlib.util.spec_from_file_location("check_wheels", CHECK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look the module up there
    spec.loader.exec_module(module)
    return module


def library(
    *, machine: int = 0x0100000C, system: int = 0x000B0000, linked: bytes = b"/usr/lib/libSystem.B.dylib"
) -> bytes:
    """
    Return the beginning of a Mach-O library, which is all that the check reads.
    """
    name = linked.ljust(40, b"\0")
    commands = struct.pack("<6I", 0xC, 24 + len(name), 24, 0, 0, 0) + name
    commands += struct.pack("<6I", 0x32, 24, 1, system, system, 0)
    return struct.pack("<8I", 0xFEEDFACF, machine, 0, 6, 2, len(commands), 0, 0) + commands + b"\0_PyInit__core\0"


def files() -> dict[str, bytes]:
    """
    Return the files of a correct wheel, without its RECORD.
    """
    source = ROOT / "src"
    found = (path for path in (source / "tickwheel").rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    held = {
        path.relative_to(source).as_posix(): path.read_bytes() for path in found if path.suffix not in {".so", ".pyd"}
    }
    return held | {NATIVE: library(), f"{INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {TAG}\n".encode()}


def pack(folder: Path, held: dict[str, bytes], tag: str = TAG) -> Path:
    """
    Write a wheel that contains the files *held*.
    """
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for name, data in held.items()
    }
    record = "".join(f"{name},sha256={digest.decode()},{len(held[name])}\n" for name, digest in digests.items())
    with zipfile.ZipFile(path := folder / f"tickwheel-1.0-{tag}.whl", "w") as wheel:
        for name, data in held.items():
            wheel.writestr(name, data)
        wheel.writestr(f"{INFO}/RECORD", f"{record}{INFO}/RECORD,,\n")
    return path


def test_a_sound_wheel_passes(check, tmp_path):
    """
    A correct wheel passes the check.
    """
    assert check.check(pack(tmp_path, files())) == []


def test_a_second_entry_passes(check, tmp_path):
    """
    A native module may also have a second entry point, by which Python 3.15 can load it.
    """
    assert check.check(pack(tmp_path, files() | {NATIVE: library() + b"_PyModExport__core\0"})) == []


DAMAGES: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "a missing module": (lambda held: held.pop("tickwheel/errors.py"), "lacks tickwheel/errors.py"),
    "a stray file": (lambda held: held.update({"tickwheel/notes.txt": b""}), "has a stray tickwheel/notes.txt"),
    "another tag inside": (
        lambda held: held.update({f"{INFO}/WHEEL": b"Tag: cp312-cp312-macosx_11_0_arm64\n"}),
        "has tags ['cp312-cp312-macosx_11_0_arm64']",
    ),
    "no native module": (lambda held: held.pop(NATIVE), "has no native module"),
    "two native modules": (
        lambda held: held.update({"tickwheel/_more.so": b""}),
        f"has the native modules ['{NATIVE}', 'tickwheel/_more.so'] for cp311-cp311",
    ),
    "another processor": (
        lambda held: held.update({NATIVE: library(machine=0x01000007)}),
        f"was built for {0x01000007}",
    ),
    "a newer system": (
        lambda held: held.update({NATIVE: library(system=0x000E0000)}),
        "needs version (14, 0) of its system",
    ),
    "a library of the builder": (
        lambda held: held.update({NATIVE: library(linked=b"/opt/local/lib/libssl.dylib")}),
        "is linked with /opt/local/lib/libssl.dylib",
    ),
    "no entry": (lambda held: held.update({NATIVE: library().replace(b"PyInit__core", b"PyInit_other")}), "exports []"),
    "a huge module": (
        lambda held: held.update({NATIVE: library().ljust(2_000_001, b"\0")}),
        "has a module of 2000001 bytes",
    ),
}


@pytest.mark.parametrize(("damage", "fault"), DAMAGES.values(), ids=DAMAGES)
def test_each_damage_is_found(check, tmp_path, damage, fault):
    """
    For each kind of damage, the check finds exactly the fault that belongs to it.
    """
    damage(held := files())
    assert check.check(pack(tmp_path, held)) == [fault]


def test_a_file_that_was_changed_afterwards_is_found(check, tmp_path):
    """
    If a file was changed after the build, the check reports that its hash differs from the hash in RECORD.
    """
    held = files()
    with zipfile.ZipFile(path := pack(tmp_path, held)) as wheel:
        record = wheel.read(f"{INFO}/RECORD")
    held["tickwheel/errors.py"] += b"\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in {**held, f"{INFO}/RECORD": record}.items():
            wheel.writestr(name, data)
    assert check.check(path) == ["tickwheel/errors.py is not as RECORD has it"]


def test_another_system_in_the_name_is_found(check, tmp_path):
    """
    If the name of a wheel has a system for which we build no wheels, the check reports it.
    """
    held = files() | {f"{INFO}/WHEEL": b"Tag: cp311-cp311-linux_x86_64\n"}
    wheel = pack(tmp_path, held, "cp311-cp311-linux_x86_64")
    assert check.check(wheel) == ["is tagged linux_x86_64: only manylinux and macosx wheels are built here"]


def test_a_damaged_wheel_fails_the_program(tmp_path):
    """
    The program that checks wheels prints a line for each fault.

    Its exit code is the number of damaged wheels.
    """
    held = files()
    del held["tickwheel/errors.py"]
    answer = subprocess.run(
        [sys.executable, "-P", CHECK, pack(tmp_path, held)], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout.splitlines()[1:]) == (1, ["  lacks tickwheel/errors.py"])


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"machine": "EM_AARCH64"}, "was built for EM_AARCH64"),
        ({"system": (2, 28)}, "needs version (2, 28) of its system"),
        ({"libraries": ["libc.so.6", "libssl.so.3"]}, "is linked with libssl.so.3"),
        ({"is_stripped": False}, "is not stripped"),
        ({"exports": {"PyInit__core", "leaked"}}, "exports ['PyInit__core', 'leaked']"),
        ({"exports": set()}, "exports []"),
    ],
)
def test_each_fault_of_a_linux_module_is_found(check, changed, fault):
    """
    A Linux module may need glibc up to 2.17 and a few libraries, and may export only its entry points.

    The check finds each violation.
    """
    sound = check.Native("EM_X86_64", (2, 17), ["libc.so.6", "libgcc_s.so.1"], True, {"PyInit__core"})
    found = check.faults_of_native(replace(sound, **changed), "manylinux_2_17_x86_64")
    assert found == ([fault] if fault else [])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="its module is not ELF")
def test_an_elf_library_is_read(check):
    """
    The check can read the native module that is installed here.
    """
    native = check.read_elf(Path(_core.__file__).read_bytes())
    assert native.machine == check.ELF_MACHINES[platform.machine()]
    assert native.exports == ({"PyInit__core"} if sys.version_info < (3, 15) else check.ENTRIES)
    assert (2,) < native.system < (3,)
    assert "libc.so.6" in native.libraries


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wheels are built on Linux")
@pytest.mark.parametrize("is_here", [True, False], ids=["tried", "no interpreter"])
def test_a_wheel_without_its_interpreter_fails(tmp_path, is_here):
    """
    `make wheels` tests all wheels for this system, and fails if the interpreter for one of them is missing.
    """
    programs = tmp_path / "bin"
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "wheels", tmp_path / "scripts")
    python = f"echo {programs / 'python'}" if is_here else "exit 1"
    scripts = {f"bin/{name}": FAKE.replace("MACHINE", platform.machine()) for name in ("rustc", "maturin", "python")}
    scripts |= {"scripts/find-python": f"#!/bin/sh\n{python}\n", "scripts/fetch-rust": "#!/bin/sh\n"}
    for name, text in scripts.items():
        (path := tmp_path / name).parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755)
    command = [tmp_path / "scripts" / "wheels", programs, "out", "3.11", f"{platform.machine()}-unknown-linux-gnu"]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == (0 if is_here else 1), answer.stderr
    assert ("tried" in answer.stdout.splitlines()) is is_here
    assert ("was built and not tried" in answer.stderr) is not is_here
