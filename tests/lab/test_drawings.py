"""
The drawings in the docs, and the pages with turning wheels, match the current wheels.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "explanation"


def drawings() -> ModuleType:
    spec = importlib.util.spec_from_file_location("drawings", ROOT / "scripts" / "drawings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", drawings().DRAWINGS)
def test_a_drawing_is_current(name: str) -> None:
    """
    If a drawing is made again, it equals the drawing in the repository.
    """
    assert drawings().DRAWINGS[name]() == (FOLDER / name).read_text("utf-8")


def test_every_drawing_is_drawn() -> None:
    """
    Each picture in the docs is made by a script, or is shown on the page with the same name.
    """
    by_hand = {path.name for path in FOLDER.glob("*.svg") if path.with_suffix(".md").exists()}
    names = {path.name for path in FOLDER.iterdir() if path.suffix in {".svg", ".html"}}
    assert names - by_hand == set(drawings().DRAWINGS)
    page = (FOLDER / "timing-wheels.md").read_text("utf-8")
    assert all(f"({name})" in page for name in names - by_hand)
    for name in by_hand:
        assert f"({name})" in (FOLDER / name).with_suffix(".md").read_text("utf-8")
