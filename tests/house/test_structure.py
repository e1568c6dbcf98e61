"""
The folders and files that the documents name exist.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

TOPS = (
    "src",
    "crates",
    "tests",
    "scripts",
    "docs",
    "benchmarks",
    "examples",
    "deploy",
    "requirements",
    ".ci",
    ".github",
)
# The places at which a short path may begin.
ROOTS = ("", "src/tickwheel", "crates/python/src", "crates/wheel/src")
# Folders that hold only what their own module reads.
DATA = ("migrations", "scripts")


@pytest.fixture(scope="module")
def tracked(root) -> set[str]:
    """
    Return the paths of all files that git tracks, or would track.
    """
    if not shutil.which("git") or not (root / ".git").exists():
        pytest.skip("no git checkout here: there is no list of tracked files")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return set(answer.stdout.split("\0")) - {""}


@pytest.fixture(scope="module")
def folders(tracked) -> set[str]:
    """
    Return every folder that contains a tracked file, directly or in a subfolder.
    """
    return {str(folder) for path in tracked for folder in Path(path).parents} - {"."}


def pages(root: Path) -> list[Path]:
    return [root / "README.md", root / "ARCHITECTURE.md", root / "CONTRIBUTING.md", *sorted(root.glob("docs/**/*.md"))]


def drawn(tree: str) -> set[str]:
    """
    Return the paths of the folders in a drawing of a tree.

    In the drawing, indentation shows the parent.
    """
    found, way = set(), []
    for line in tree.splitlines():
        name = line.split()[0].rstrip("/")
        depth = len(line) - len(line.lstrip())
        way = [(at, above) for at, above in way if at < depth] + [(depth, name)]
        found.add("/".join(name for _, name in way))
    return found


def test_the_tree_is_that_of_architecture(root, folders):
    """
    ARCHITECTURE draws every folder of the package and the bindings.

    Every folder in the drawing exists.
    """
    text = (root / "ARCHITECTURE.md").read_text("utf-8")
    tree = drawn(text.partition("\n## Folders\n")[2].split("```")[1].strip("\n"))
    there = {folder for folder in folders if folder.startswith(("src/tickwheel", "crates/python/src"))}
    there = {folder for folder in there if not folder.endswith(DATA)} | {"crates", "crates/wheel", "crates/python"}
    assert tree - there == set(), "drawn, and not there"
    assert there - tree == set(), "there, and not drawn"


def defined(file: Path) -> set[str]:
    """
    Return the names of the functions and classes of a file; a method has the name of its class before its own.
    """

    def names(body: list[ast.stmt], start: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{start}{node.name}"
                yield from names(node.body, f"{start}{node.name}.")

    return set(names(ast.parse(file.read_text("utf-8")).body, ""))


def test_every_path_in_the_documents_is_there(root, tracked, folders):
    """
    A path in a page exists below the root, or below the source folder of the package or of a crate.

    If the page also names a function of the file, the file defines it.
    """
    wrong, count = [], 0
    for page in pages(root):
        named = re.findall(r"`([\w.-]+(?:/[\w.*-]+)*)/?(?:::([\w.]+))?`", page.read_text("utf-8"))
        for path, name in named:
            if "/" not in path and not name:
                continue
            is_file = re.search(r"\.(py|rs|sql|lua|pml|toml|yml|html|js)$", path)
            if "NAME" in path or (path.split("/")[0] not in TOPS and not is_file):
                continue  # what is yet to be added; an address, a fire id, a topic
            count += 1
            places = [f"{start}/{path}".lstrip("/") for start in ROOTS]
            if not any(place in tracked | folders or ("*" in place and any(root.glob(place))) for place in places):
                wrong.append(f"{page.relative_to(root)}: {path}")
            elif name and not any(name in defined(root / place) for place in places if place in tracked):
                wrong.append(f"{page.relative_to(root)}: {path} has no {name}")
    assert wrong == []
    assert count > 40
