"""
The files themselves: their length, and forbidden content.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

LINES_MAX = 800
CLASSIC_LINES_MAX = 250
BUILT = {".whl", ".so", ".pyd", ".dll", ".dylib", ".a", ".o", ".pyc", ".gz", ".zip", ".db"}
CLASSIC = ("heap", "single", "rounds", "hierarchical", "cascading", "calendar_queue")
# A noqa without a word behind its rules; an attribute that allows without a comment or a reason.
BARE = {
    ".py": re.compile(r"# noqa(: ?[A-Z]+\d+(, ?[A-Z]+\d+)*)?\s*(#.*)?$"),
    ".rs": re.compile(r"#!?\[allow\((?!.*reason)[^\]]*\)\]\s*$"),
}
# Places that belong to one machine, and hosts that things are downloaded from: neither outlives its network.
MACHINE_PATH = re.compile(rb"(?<![\w.])/(?:work|root|tmp|home/\w+)/\w")
DOWNLOAD_HOST = re.compile(
    rb"pypi\.org|pythonhosted\.org|crates\.io/api|static\.crates|registry\.npmjs|unpkg\.com|jsdelivr|cdnjs"
    rb"|proxy\.golang|repo1?\.maven|deb\.debian|fonts\.googleapis|raw\.githubusercontent|sh\.rustup"
    rb"|--(?:extra-)?index-url|--find-links"
)


@pytest.fixture(scope="module")
def tracked(root) -> list[Path]:
    if not shutil.which("git") or not (root / ".git").exists():
        pytest.skip("no git checkout here: there is no list of tracked files")
    answer = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    return [path for name in answer.stdout.decode().split("\0")[:-1] if (path := root / name).is_file()]


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def test_no_file_is_long(tracked, root):
    """
    No source file has more than 800 lines.

    No file of a wheel of a classic design, such as a heap, has more than 250 lines.
    """
    limits = {f"src/tickwheel/wheels/{name}.py": CLASSIC_LINES_MAX for name in CLASSIC}
    sources = [path for path in tracked if path.suffix in {".py", ".rs", ".js", ".sql", ".lua"}]
    names = {path.relative_to(root).as_posix(): lines_of(path) for path in sources}
    assert {name: lines for name, lines in names.items() if lines > limits.get(name, LINES_MAX)} == {}


def test_no_line_of_javascript_is_long(tracked):
    """
    No line has more than 140 columns.

    If npm is installed, `make lint` checks the rest of the style.
    """
    scripts = [path for path in tracked if path.suffix in {".js", ".mjs"}]
    assert len(scripts) > 30
    lines = [line for path in scripts for line in path.read_text("utf-8").splitlines()]
    assert [line for line in lines if len(line) > 140] == []


def test_the_median_length_of_files(root):
    """
    The median length of a module is at most 120 lines in the package, and 150 in the crates.
    """
    assert statistics.median(map(lines_of, (root / "src").rglob("*.py"))) <= 120
    assert statistics.median(map(lines_of, (root / "crates").rglob("src/**/*.rs"))) <= 150


def test_every_exception_has_a_reason(tracked, root):
    """
    Each `noqa` in Python and each `allow` in Rust has a reason beside it.
    """
    bare = []
    for path in tracked:
        pattern = BARE.get(path.suffix)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1) if pattern else ():
            if pattern.search(line):
                bare.append(f"{path.relative_to(root)}:{number}: {line.strip()}")
    assert bare == []


def test_nothing_built_is_tracked(tracked, root):
    """
    Files that tools build or fetch are not in the repository.
    """
    assert [str(path.relative_to(root)) for path in tracked if path.suffix in BUILT] == []


@pytest.mark.parametrize("pattern", [MACHINE_PATH, DOWNLOAD_HOST], ids=["machine path", "download host"])
def test_no_file_names_a_place(tracked, root, pattern):
    """
    No tracked file names a download host, or a path of the machine on which it was written.
    """
    found = []
    for path in set(tracked) - {Path(__file__)}:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            match = pattern.search(line)
            if match:
                found.append(f"{path.relative_to(root)}:{number}: {match[0].decode()}")
    assert sorted(found) == []


def test_pins_are_exact(root):
    """
    Every line of a pin file is one exact version, without an address or option.

    The versions for the container image have hashes.
    """
    pins = list((root / "requirements").glob("*.txt"))
    assert pins
    for path in pins:
        text = path.read_text("utf-8")
        if path.name == "image.txt":
            text = re.sub(r" \\\n    --hash=sha256:[0-9a-f]{64}", "", text)
        for line in text.splitlines():
            if line and not line.lstrip().startswith("#"):
                assert re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)?", line), f"{path.name}: {line!r}"
