"""
The page about the service lists the exit codes that are in use.
"""

from __future__ import annotations

from pathlib import Path

from tickwheel.cli.exits import ExitCode

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def test_the_page_lists_them():
    """
    The page lists every exit code with its meaning.
    """
    page = PAGE.read_text("utf-8")
    for code in ExitCode:
        assert f"| {code.value} | {code.meaning} |\n" in page
