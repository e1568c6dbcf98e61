"""
What the documents say is so: their code runs, their links lead somewhere, their commands exist.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#]+)[^)]*\)")


def name_of(path: Path) -> str:
    """
    Return a page's path inside the project.
    """
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> str:
    """
    Return all blocks of *language* of a page as one text, each line where it stands in the page.
    """
    text = path.read_text("utf-8")
    lines = [""] * text.count("\n")
    for match in FENCE.finditer(text):
        if match[1] == language:
            begin = text.count("\n", 0, match.start(2))
            code = match[2].splitlines()
            lines[begin : begin + len(code)] = code
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python").strip()], ids=name_of)
def test_the_python_of_a_page_runs(page, tmp_path):
    """
    The Python blocks of a page run from top to bottom in a fresh interpreter, with warnings as errors.
    """
    script = tmp_path / f"{page.stem}.py"
    script.write_text(blocks(page, "python"), "utf-8")
    command = [sys.executable, "-P", "-W", "error", script.name]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, f"{name_of(page)}, by line:\n{answer.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    """
    Every link to a file of the project names one that is there.
    """
    assert [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page, root):
    """
    Every `make TARGET` that a page mentions is a target of the Makefile.
    """
    targets = set(re.findall(r"^([a-z-]+%?):", (root / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE))
    assert {name for name in named if name not in targets and re.sub("-.*", "-%", name) not in targets} == set()


def test_doctests_of_the_package(modules):
    """
    Every example in a docstring gives what it says.
    """
    tried = 0
    for name, tree in modules.items():
        if ">>> " in ast.unparse(tree):
            outcome = doctest.testmod(importlib.import_module(name))
            assert outcome.failed == 0, name
            tried += outcome.attempted
    assert tried > 0


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """
    Serve a store in a folder of its own; return the folder and the address.
    """
    folder = tmp_path_factory.mktemp("served")
    command = [sys.executable, "-P", "-m", "tickwheel.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            said = list(takewhile(lambda line: not line.startswith("try"), server.stdout))
            page = [line for line in said if line.startswith("page")]
            assert page, f"the server does not start:\n{''.join(said)}"
            yield folder, page[0].split()[1].rstrip("/")
        finally:
            server.terminate()


COMMANDS = [
    (page, line)
    for page in PAGES
    for line in re.findall(r"^\$ (.*)", blocks(page, "console"), re.MULTILINE)
    if not line.startswith(("make ", "tickwheel serve"))
]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{name_of(page)}: {line[:40]}" for page, line in COMMANDS])
def test_commands_of_a_page_run(page, line, served):
    """
    The commands of a page do what they say beside a running server, one after the other.
    """
    folder, address = served
    if line.startswith("curl ") and not shutil.which("curl"):
        pytest.skip("curl is not installed")
    line = line.replace("http://127.0.0.1:8765", address).replace("curl ", "curl --silent --show-error --fail ", 1)
    line = re.sub(r"^tickwheel ", f"{sys.executable} -P -m tickwheel.cli ", line)
    answer = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, timeout=60, check=False)  # noqa: S602 the docs' own line
    assert answer.returncode == 0, f"{name_of(page)}: {line}\n{answer.stderr}"
