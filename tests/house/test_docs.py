"""
The documents are right.

Their code and commands run, their links work, and newcomers get to a result.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import find

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(
    r"^(?:<!-- (?:given\n(?P<given>.*?)^|not run: (?P<why>[^\n]*?) )-->\n+)?"
    r"```(?P<language>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#]+)[^)]*\)")
DATABASES = re.compile(r"^\$ (createdb .+)", re.MULTILINE)
FILE = re.compile(r"^# ([\w./]+\.py)\n")
IMPORT = re.compile(r"^from (\w+) import", re.MULTILINE)
MISSING = re.compile(r"ModuleNotFoundError: No module named '(?!tickwheel)(\w+)")
PATIENCE_S = 300
KILLED = {-signal.SIGKILL, 128 + signal.SIGKILL} if hasattr(signal, "SIGKILL") else {1}
LANGUAGES = {"python", "console", "py", "", "{toctree}"}
"""
Languages of the code blocks in a page. Tests run the Python blocks and the commands. The other blocks are excerpts,
drawings, output and lists of pages.
"""
COMMAND = re.compile(r"^(?:createdb|curl|export|make|pip|python|tickwheel) ", re.MULTILINE)
NOT_RUN = {
    "make ": "make runs these tests; that there is such a target is tested below",
    "pip install ": "what is tested is installed; that there is such an extra is tested below",
}
WAYS = {
    "idle timeouts": ("README.md", "docs/connections.md"),
    "an unpaid order": ("README.md", "docs/tutorial.md"),
    "three nodes": ("README.md", "docs/nodes.md"),
    "what is a timing wheel": ("README.md", "docs/explanation/timing-wheels.md"),
}
"""For each aim of a newcomer, the pages that lead to a running program, in order."""


class Block(NamedTuple):
    """
    A fenced block of a page, with its language, its code, and the line at which the code begins.
    """

    language: str
    code: str
    line: int


class Command(NamedTuple):
    """
    A line after a `$`, with the lines of output that the page shows below it.
    """

    line: str
    output: list[str]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> list[Block]:
    """
    Return the blocks of a page in *language*.

    A comment before a block may contain input for the block. This input is a separate block.
    """
    text = path.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        if match["language"] == language:
            parts = [name for name in ("given", "code") if match[name] is not None]
            found += [Block(language, match[name], text.count("\n", 0, match.start(name)) + 1) for name in parts]
    return found


def commands(block: Block) -> list[Command]:
    """
    Return the commands of a block that the tests run.
    """
    found: list[Command] = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif line.strip():
            found[-1].output.append(line)
    return [command for command in found if not command.line.startswith(tuple(NOT_RUN))]


def files(path: Path) -> dict[str, str]:
    """
    Return the Python files that a page shows.

    The first line of each file has its name.
    """
    return {match[1]: block.code for block in blocks(path, "python") if (match := FILE.match(block.code))}


def script(path: Path) -> str:
    """
    Return the Python of a page as one script with the page's line numbers.

    Files that a command runs, or that another file of the page imports, are left out.
    """
    imported = {name for code in files(path).values() for name in IMPORT.findall(code)}
    run = {word for block in blocks(path, "console") for command in commands(block) for word in command.line.split()}
    lines = [""] * path.read_text("utf-8").count("\n")
    for block in blocks(path, "python"):
        match = FILE.match(block.code)
        if match is None or not (match[1] in run or match[1].removesuffix(".py") in imported):
            code = block.code.splitlines()
            lines[block.line - 1 : block.line - 1 + len(code)] = code
    return "\n".join(lines) + "\n"


@pytest.fixture
def environment(page: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """
    Return the environment for a page's code.

    Databases that it creates are dropped at the end.
    """
    if "postgresql:///" not in "".join(b.code for kind in ("python", "console") for b in blocks(page, kind)):
        yield dict(os.environ)
        return
    server, programs = request.getfixturevalue("postgres"), Path(find("createdb")).parent
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    yield {**os.environ, "PGHOST": str(server.folder), "PGUSER": "tick", "PATH": path}
    for line in DATABASES.findall(page.read_text("utf-8")):
        server.execute(f"DROP DATABASE {line.split()[-1]} WITH (FORCE)")


@pytest.mark.parametrize("page", [page for page in PAGES if script(page).strip()], ids=name_of)
def test_the_python_of_a_page_runs(page, environment, tmp_path):
    """
    The Python blocks of a page run from top to bottom in a fresh interpreter.

    Warnings are errors.
    """
    for line in DATABASES.findall(page.read_text("utf-8")):
        subprocess.run(line.split(), env=environment, check=True, timeout=PATIENCE_S)
    code = script(page)
    path = tmp_path / f"{page.stem}.py"
    path.write_text(code, "utf-8")
    # Sentry asks eventlet, if it is installed, whether it has patched anything; eventlet warns that it is deprecated.
    command = [sys.executable, "-P", "-W", "error", "-W", "ignore:::sentry_sdk.utils"]
    tests = re.findall(r"^def (test_\w+)", code, re.MULTILINE)
    if tests:
        command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"{path.name}::{test}" for test in tests)]
    else:
        command += [path.name]
    answer = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if missing := MISSING.search(answer.stdout + answer.stderr):
        pytest.skip(f"{missing[1]} is not installed")
    assert answer.returncode == 0, f"{name_of(page)}, by line:\n{answer.stdout}\n{answer.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_code_is_left_out(page):
    """
    Every block on a page is in a language that runs here.

    A skipped block has a reason, and names the test that runs it.
    """
    for match in FENCE.finditer(page.read_text("utf-8")):
        assert match["language"] in LANGUAGES
        if match["language"] == "py" or (match["language"] == "" and COMMAND.search(match["code"])):
            assert match["why"], f"say before it why it is not run, and which test runs the like:\n{match['code']}"
            named = re.findall(r"\w+(?:/[\w.]+)+", match["why"])
            assert all((ROOT / path).exists() for path in named)
            assert any(path.startswith("tests/") for path in named)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    """
    Every link to a file of the project names an existing file.
    """
    assert [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("way", WAYS)
def test_newcomers_get_to_a_result(way):
    """
    A newcomer needs at most three pages.

    Each of these pages links to the next one, and the last page has commands to run.
    """
    pages = [ROOT / name for name in WAYS[way]]
    assert len(pages) <= 3
    for page, following in pairwise(pages):
        assert following in {(page.parent / link).resolve() for link in LINK.findall(page.read_text("utf-8"))}
    commanded = [command for block in blocks(pages[-1], "console") for command in commands(block)]
    assert commanded
    assert any(command.output for command in commanded)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_of_make_and_extras_exist(page, root):
    """
    Every `make TARGET` that a page mentions is in the Makefile.

    Every extra that a page mentions is in pyproject.toml.
    """
    text = page.read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+%?):", (root / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|\$ )make ([a-z-]+)", text, re.MULTILINE))
    assert {name for name in named if name not in targets and re.sub("-.*", "-%", name) not in targets} == set()
    extras = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {extra for found in re.findall(r"tickwheel\[([\w,-]+)\]", text) for extra in found.split(",")} <= set(extras)


def test_doctests_of_the_package(modules):
    """
    Every example in a docstring gives the result that it shows.
    """
    tried = 0
    for name, tree in modules.items():
        if ">>> " in ast.unparse(tree):
            outcome = doctest.testmod(importlib.import_module(name))
            assert outcome.failed == 0, name
            tried += outcome.attempted
    assert tried > 0


def serve(arguments: list[str], folder: Path, env: dict[str, str]) -> tuple[subprocess.Popen[str], list[str]]:
    """
    Start a service on a free port.

    Return its process, and the output that it printed until it was ready.
    """
    command = [sys.executable, "-P", "-m", "tickwheel.cli", "serve", *arguments, "--port", "0"]
    server = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said: list[str] = []
    for line in server.stdout:
        said.append(line)
        if line.startswith("try"):
            break
    return server, said


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """
    Serve a store in a new folder.

    Return the folder and the address of the service.
    """
    folder = tmp_path_factory.mktemp("served")
    server, said = serve([], folder, dict(os.environ))
    with server:
        try:
            page = [line for line in said if line.startswith("page")]
            assert page, f"the server does not start:\n{''.join(said)}"
            yield folder, page[0].split()[1].rstrip("/")
        finally:
            server.terminate()


def has_chaos(page: Path) -> bool:
    """
    Return True if the page runs a chaos test, which needs SIGSTOP.
    """
    return any(line.startswith("tickwheel chaos") for block in blocks(page, "console") for line, _ in commands(block))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.needs("signal.SIGSTOP")] if has_chaos(page) else [])
        for page in PAGES
        if any(map(commands, blocks(page, "console")))
    ],
)
def test_commands_of_a_page_run(page, environment, served, tmp_path):
    """
    The commands of a page run one after the other beside a server, and print the output that the page shows.
    """
    folder, address = served
    for name, code in files(page).items():
        (folder / name).write_text(code, "utf-8")
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    for line, shown in [command for block in blocks(page, "console") for command in commands(block)]:
        if line.startswith("export "):
            name, _, value = shlex.split(line)[1].partition("=")
            environment[name] = value
        elif line.startswith("tickwheel serve"):
            for name, code in files(page).items():
                (tmp_path / name).write_text(code, "utf-8")
            server, said = serve(shlex.split(line)[2:], tmp_path, environment)
            with server:
                server.terminate()
            said = [re.sub(r"(http://127.0.0.1:)\d+", r"\g<1>8765", text).rstrip() for text in said]
            assert any(text.startswith("page") for text in said), f"{name_of(page)}: {line}\n{said}"
            assert [text for text in shown if text not in said] == []
        else:
            code, said, errors = run(line, folder, environment, address)
            is_killed = "Killed" in shown[-1:]  # which the shell says
            assert code in (KILLED if is_killed else {0}), f"{name_of(page)}: {line}\n{errors}"
            assert not shown or said.splitlines() == shown[: -1 if is_killed else None], f"{name_of(page)}: {line}"


def run(line: str, folder: Path, env: dict[str, str], address: str) -> tuple[int, str, str]:
    """
    Run a command of a page as the reader would.

    Return its exit code, its output and its errors.
    """
    if line.startswith("curl ") and not shutil.which("curl"):
        pytest.skip("curl is not installed")
    line = line.replace("http://127.0.0.1:8765", address).replace("curl ", "curl --silent --show-error --fail ", 1)
    line = re.sub(r"^tickwheel ", f"{sys.executable} -P -m tickwheel.cli ", line)
    line = re.sub(r"^python ", f"{sys.executable} ", line)
    options = {"cwd": folder, "env": env, "capture_output": True, "text": True, "timeout": PATIENCE_S}
    answer = subprocess.run(line, shell=True, check=False, **options)  # noqa: S602 the docs' own line
    return answer.returncode, answer.stdout, answer.stderr
