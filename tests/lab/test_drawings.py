"""
The drawings of the docs, and the pages of wheels that turn, are what the wheels hold today.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "explanation"


def drawings() -> ModuleType:
    """
    Return the script that draws.
    """
    spec = importlib.util.spec_from_file_location("drawings", ROOT / "scripts" / "drawings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", drawings().DRAWINGS)
def test_a_drawing_is_current(name: str) -> None:
    """
    A drawing that is drawn again equals the committed one; if not, run `python scripts/drawings.py docs/explanation`.
    """
    assert drawings().DRAWINGS[name]() == (FOLDER / name).read_text("utf-8")


def test_every_drawing_is_drawn() -> None:
    """
    There is no picture in the docs that nothing draws, and each is shown or linked by the page.
    """
    names = {path.name for path in FOLDER.iterdir() if path.suffix in {".svg", ".html"}}
    assert names == set(drawings().DRAWINGS)
    page = (FOLDER / "timing-wheels.md").read_text("utf-8")
    assert all(f"({name})" in page for name in names)
