"""
Check wheels: their files, the tags in their names, the requirements of the native module, and its size.

    python -P scripts/check_wheels.py dist/*.whl
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import struct
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

ROOT = Path(__file__).parents[1]
SIZE_MAX = 2_000_000
"""
Maximum size of the native module in bytes. Without symbols the module has about half of this size, and with symbols
more than twice this size.
"""

ELF_MACHINES: dict[str, object] = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
# Libraries that manylinux2014 (PEP 599) guarantees on every system.
ELF_LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d|ld-linux-[\w-]+\.so\.\d")
MACH_MAGIC = 0xFEEDFACF
MACH_MACHINES: dict[str, object] = {"x86_64": 0x01000007, "arm64": 0x0100000C}
MACH_LIBRARIES = re.compile(r"/usr/lib/lib(System\.B|iconv\.2|charset\.1)\.dylib|@rpath/.*_core.*")
ENTRIES = {"PyInit__core", "PyModExport__core"}
"""Symbols by which Python finds the module. The second one exists from Python 3.15 on (PEP 793)."""
LC_ID_DYLIB, LC_LOAD_DYLIB, LC_VERSION_MIN, LC_BUILD_VERSION = 0xD, 0xC, 0x24, 0x32


@dataclass(frozen=True)
class Native:
    """
    The properties of a wheel's native module.

    Attributes:
        machine: The processor, as the format names it.
        system: The oldest glibc or macOS on which it runs.
        libraries: The libraries with which it is linked.
        is_stripped: True if it has no symbols. None if the format does not show this.
        exports: The exported names.
    """

    machine: object
    system: tuple[int, ...]
    libraries: list[str]
    is_stripped: bool | None
    exports: set[str]


def read_elf(data: bytes) -> Native:
    elf = ELFFile(io.BytesIO(data))
    libraries: list[str] = []
    versions: list[tuple[int, ...]] = [(0,)]
    exports: set[str] = set()
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            libraries += [tag.needed for tag in section.iter_tags("DT_NEEDED")]
        elif isinstance(section, GNUVerNeedSection):
            names = [auxiliary.name for _, needed in section.iter_versions() for auxiliary in needed]
            versions += [tuple(map(int, name[6:].split("."))) for name in names if name.startswith("GLIBC_2")]
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            exports |= {symbol.name for symbol in section.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
    return Native(elf["e_machine"], max(versions), libraries, elf.get_section_by_name(".symtab") is None, exports)


def read_macho(data: bytes) -> Native:
    machine, _, _, commands = struct.unpack_from("<IIII", data, 4)
    place = 32
    system: tuple[int, ...] = (0,)
    libraries: list[str] = []
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, place)
        body = data[place : place + size]
        if command == LC_LOAD_DYLIB:
            libraries.append(body[struct.unpack_from("<I", body, 8)[0] :].rstrip(b"\0").decode())
        elif command in {LC_VERSION_MIN, LC_BUILD_VERSION}:
            packed = struct.unpack_from("<I", body, 8 if command == LC_VERSION_MIN else 12)[0]
            system = (packed >> 16, packed >> 8 & 0xFF)
        place += size
    exports = {name for name in ENTRIES if b"_" + name.encode() in data}
    return Native(machine, system, libraries, None, exports)


def faults_of_files(wheel: zipfile.ZipFile) -> list[str]:
    """
    Return the faults in the list of the wheel's files.

    A file may be missing, superfluous, or different from RECORD.
    """
    source = ROOT / "src"
    wanted = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    wanted = {name for name in wanted if "__pycache__" not in name and not name.endswith((".so", ".pyd"))}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name and not name.endswith((".so", ".pyd"))}
    faults = [f"lacks {name}" for name in sorted(wanted - held)] + [
        f"has a stray {name}" for name in sorted(held - wanted)
    ]
    record = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
    rows = {row[0]: row[1] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
    for name in wheel.namelist():
        digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
        if name != record and rows.get(name) != f"sha256={digest}":
            faults.append(f"{name} is not as RECORD has it")
    return faults


def faults_of_native(native: Native, platform: str) -> list[str]:
    """
    Return a text for each property of *native* that does not fit the *platform* in the wheel's name.
    """
    if match := re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", platform):
        machine, allowed = ELF_MACHINES[match[3]], ELF_LIBRARIES
    elif match := re.fullmatch(r"macosx_(\d+)_(\d+)_(\w+)", platform):
        machine, allowed = MACH_MACHINES[match[3]], MACH_LIBRARIES
    else:
        return [f"is tagged {platform}: only manylinux and macosx wheels are built here"]
    oldest = (int(match[1]), int(match[2]))
    faults = [] if native.machine == machine else [f"was built for {native.machine}"]
    faults += [f"needs version {native.system} of its system"] if native.system > oldest else []
    faults += [f"is linked with {name}" for name in native.libraries if not allowed.fullmatch(name)]
    faults += ["is not stripped"] if native.is_stripped is False else []
    is_alone = "PyInit__core" in native.exports and native.exports <= ENTRIES
    faults += [] if is_alone else [f"exports {sorted(native.exports)}"]
    return faults


def check(path: Path) -> list[str]:
    """
    Print a line about the wheel at *path*.

    Return the faults of the wheel.
    """
    *_, python, abi, platforms = path.stem.split("-")
    with zipfile.ZipFile(path) as wheel:
        faults = faults_of_files(wheel)
        tags = re.findall(
            r"^Tag: (\S+)", wheel.read(next(n for n in wheel.namelist() if n.endswith("/WHEEL"))).decode(), re.MULTILINE
        )
        faults += [] if set(tags) == {f"{python}-{abi}-{one}" for one in platforms.split(".")} else [f"has tags {tags}"]
        names = [name for name in wheel.namelist() if name.endswith((".so", ".pyd"))]
        if not names:
            return [*faults, "has no native module"]
        faults += [] if len(names) == 1 and python == abi else [f"has the native modules {names} for {python}-{abi}"]
        data = wheel.read(names[0])
    native = read_macho(data) if data.startswith(struct.pack("<I", MACH_MAGIC)) else read_elf(data)
    modern = [platform for platform in platforms.split(".") if re.match(r"manylinux_|macosx_", platform)]
    faults += [fault for platform in modern or [platforms] for fault in faults_of_native(native, platform)]
    faults += [] if len(data) <= SIZE_MAX else [f"has a module of {len(data)} bytes"]
    needs = ".".join(map(str, native.system))
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, module {len(data) / 1e6:.2f} MB, from {needs} on")
    return faults


def main() -> int:
    """
    Check every named wheel.

    Return the number of faulty wheels.
    """
    bad = 0
    for argument in sys.argv[1:]:
        faults = check(Path(argument))
        bad += bool(faults)
        for fault in faults:
            print(f"  {fault}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
