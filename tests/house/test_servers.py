"""
The places where `scripts/servers` finds the programs that tests start.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/usr/bin/env").exists(), reason="there is no bash")


@pytest.fixture
def find(root, tmp_path) -> Callable[..., tuple[int, str]]:
    """
    Return a function that puts a program into folders below *tmp_path*, and lets `scripts/servers` search there.

    The function returns the exit code of the script, and the place that it has found.
    """
    before, quote, rest = (root / "scripts" / "servers").read_text("utf-8").partition("\nplaces='")
    places, end, after = rest.partition("'\n")
    assert places.startswith("/usr/sbin\n")
    moved = "\n".join(f"{tmp_path}{place}" for place in places.splitlines())
    script = tmp_path / "servers"
    script.write_text(before + quote + moved + end + after, "utf-8")
    script.chmod(0o755)

    def ask(program: str, *folders: str) -> tuple[int, str]:
        for folder in folders:
            (path := tmp_path / folder / program).parent.mkdir(parents=True)
            path.touch(0o755)
        answer = subprocess.run([script, "--find", program], capture_output=True, text=True, check=False)
        return answer.returncode, answer.stdout.strip().removeprefix(f"{tmp_path}/")

    return ask


@pytest.mark.parametrize(
    "folder",
    ["usr/sbin", "usr/lib/postgresql/17/bin", "opt/homebrew/opt/postgresql@16/bin", "usr/local/opt/postgresql@16/bin"],
)
def test_it_is_found_beside_the_path(find, folder):
    """
    The script finds a program that is not on the PATH.

    The script looks in Debian's server folders, and in Homebrew's versioned formulas.
    """
    assert find("a-server-of-ours", folder) == (0, f"{folder}/a-server-of-ours")


def test_the_newest_is_taken(find):
    """
    The script takes the newest version.

    Version 16 is newer than version 9.
    """
    folders = [f"usr/lib/postgresql/{version}/bin" for version in (9, 16, 15)]
    assert find("a-server-of-ours", *folders) == (0, "usr/lib/postgresql/16/bin/a-server-of-ours")


def test_the_path_comes_first(find):
    """
    A program on the PATH is preferred to the same program in another folder.
    """
    code, place = find("env", "usr/lib/postgresql/16/bin")
    assert code == 0
    assert place.endswith("bin/env")
    assert "postgresql" not in place


def test_nothing_is_found(find):
    """
    If the script finds no program, the exit code says so.
    """
    assert find("a-server-of-nobody") == (1, "")
