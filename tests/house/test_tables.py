"""
The tables that `make test-all`, `make test-part` and `.ci/run` print last, and the exit codes of these commands.

The output of `make help` is tested, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not shutil.which("make"), reason="it needs make as Linux has it"
)

FIND = '#!/bin/sh\n[ "$1" != 3.13 ] && echo /bin/true\n'
FAILS = "#!/bin/sh\nexit 1\n"
RUN = """#!/bin/sh
case "$0 $*" in
    *install*) ;;
    *3.11*) echo "test result: ok. 9 passed; 0 failed; finished in 0.02s"
        echo "==== 3 passed, 1 skipped in 1.20s (0:00:01) ===="; echo "note" ;;
    *3.12*) echo "==== 1 failed, 2 passed in 0.50s ===="; echo "make: *** [Makefile:1: test] Error 1"; exit 2 ;;
    *) echo "test result: ok. 9 passed; 0 failed; finished in 0.02s"; echo "make: *** Error 101"; exit 2 ;;
esac
"""

STEP = """#!/bin/sh
[ "$1" = test ] && echo "== 3 passed in 1.00s =="
[ "$1" = "$FAILS" ] && echo "make: Error 1" && exit 2
exit 0
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


@pytest.fixture
def make(root, tmp_path):
    """
    Return a function that runs make with fake interpreters and fake test runs.

    The function returns the exit code and the table.
    """
    shutil.copy(root / "Makefile", tmp_path)
    for name, text in (("find-python", FIND), ("fetch-pythons", FAILS), ("quick-build", "#!/bin/sh\n")):
        script(tmp_path / "scripts" / name, text)
    shutil.copy(root / "scripts" / "summary-of", tmp_path / "scripts")
    for version in ("3.11", "3.12", "3.14"):
        script(tmp_path / f".venv-part-{version}" / "bin" / "python", RUN)
    script(tmp_path / "run", RUN)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".build").touch()
    # make test VENV=... runs this, too, and hands its variables on
    env = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "VENV"}}

    def run(target: str, versions: str) -> tuple[int, list[str]]:
        command = ["make", "--no-print-directory", target, f"VERSIONS={versions}", f"MAKE={tmp_path / 'run'}"]
        answer = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        return answer.returncode, answer.stdout.rpartition("\n\n")[2].splitlines()

    return run


@pytest.mark.parametrize("target", ["test-all", "test-part"])
def test_a_row_is_the_summary_of_pytest(make, target):
    """
    For each Python, the printed table has the summary of pytest, without messages of make or cargo.

    A failed run fails the command.
    """
    code, table = make(target, "3.11 3.12 3.14")
    assert code != 0
    assert [row.strip("= ") for row in table] == [
        "3.11  ==== 3 passed, 1 skipped in 1.20s (0:00:01)",
        "3.12  ==== 1 failed, 2 passed in 0.50s",
        f"3.14  ended before pytest's summary: see .venv{'-part' * (target == 'test-part')}-3.14/test.log",
    ]


@pytest.mark.parametrize("target", ["test-all", "test-part"])
def test_all_pass(make, target):
    """
    If every run passes, the command succeeds.
    """
    assert make(target, "3.11")[0] == 0


@pytest.mark.parametrize(("target", "is_allowed"), [("test-all", False), ("test-part", True)])
def test_a_missing_python_is_in_the_table(make, target, is_allowed):
    """
    A missing Python makes `make test-all` fail.

    `make test-part`, which CI runs, continues without that Python.
    """
    code, table = make(target, "3.11 3.13")
    assert (code == 0) is is_allowed
    assert table[1:] == ["3.13  missing, so not tested"]


def test_targets_for_all_pythons_fetch_missing_ones(root):
    """
    Each make target that runs for all VERSIONS depends on the target `pythons`.
    """
    rules = re.findall(r"^([\w-]+):(.*)\n((?:\t.*\n)+)", (root / "Makefile").read_text("utf-8"), re.MULTILINE)
    found = {name: "pythons" in needs.split() for name, needs, recipe in rules if "$(VERSIONS)" in recipe}
    del found["pythons"]
    assert found == dict.fromkeys(
        ["wheels", "release-check", "test-all", "test-part", "conformance", "bench-pythons"], True
    )


@pytest.fixture
def ci(root, tmp_path):
    """
    Return a function that runs .ci/run with a fake make, in which the step with a given name fails.
    """
    (tmp_path / ".ci").mkdir()
    shutil.copy(root / ".ci" / "run", tmp_path / ".ci")
    for tool in ("cargo", "cargo-fmt", "cargo-clippy"):
        script(tmp_path / "bin" / tool, "#!/bin/sh\n")
    script(tmp_path / "bin" / "make", STEP)

    def run(fails: str) -> tuple[int, list[str]]:
        env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "FAILS": fails}
        answer = subprocess.run([tmp_path / ".ci" / "run"], env=env, capture_output=True, text=True, check=False)
        return answer.returncode, answer.stdout.splitlines()

    return run


@pytest.mark.parametrize(("fails", "code", "last"), [("", 0, "== 3 passed in 1.00s =="), ("test", 2, "make: Error 1")])
def test_ci_prints_the_seconds_of_each_step(ci, fails, code, last):
    """
    `.ci/run` prints the table of its steps once, directly above pytest's summary.

    The table is printed whether or not a test fails.
    """
    found, lines = ci(fails)
    assert (found, lines[-1]) == (code, last)
    assert re.fullmatch(r" *\d+s  altogether", lines[lines.index("== 3 passed in 1.00s ==") - 1])
    assert sum(re.match(r" *\d+s  ", line) is not None for line in lines) == 8


def test_a_step_that_fails_ends_ci_with_the_table(ci):
    """
    If a step of `.ci/run` fails, later steps do not run.

    The table of the steps is still printed.
    """
    found, lines = ci("types")
    assert found == 2
    assert lines[-1].endswith("altogether")
    assert not any("passed" in line for line in lines)


def test_help_names_every_target(root):
    """
    `make help` lists the most important targets first.

    Each target with a help text is listed once.
    """
    command = ["make", "--no-print-directory", "help"]
    lines = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    named = [line.split()[1] for line in lines if line.startswith("  make ")]
    assert lines[0] == "The ten that matter most"
    assert named[:2] == ["run", "test"]
    assert lines[11] == ""
    targets = re.findall(r"^([\w%-]+):.*## ", (root / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(targets)
