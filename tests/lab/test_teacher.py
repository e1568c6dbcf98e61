"""
The page that teaches wheels, in a browser. It asks questions, explains, and needs no scrolling.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tickwheel.lab.designs import Design, parse_design
from tickwheel.lab.generate import Load, generate
from tickwheel.lab.watch import render_watch

TRACE = list(generate(Load("connections", seconds=60, size=2, seed=5)))
LAPTOP = {"width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": False}
SCENES = ["clock", "trace", "yours", "early", "lost-move", "coarse-tick", "burst"]
AXE = Path(sys.prefix, "clients", "node_modules", "axe-core", "axe.min.js")
FINDINGS = """
const done = arguments[0];
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done(
  violations.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => [html, failureSummary])]),
));
"""
PLACES = """
return [...document.querySelectorAll("figure")].map((figure) => {
  const box = (query) => figure.querySelector(query).getBoundingClientRect();
  return { ring: box("svg").right, what: box(".what").left, below: Math.max(box("dl").bottom, box("svg").bottom) };
});
"""
LABELS = 'return [...document.querySelector("figure").querySelectorAll("text")].map((text) => text.textContent)'
ANSWERS = 'return [...document.querySelectorAll("#quiz button")].map((button) => button.textContent)'
QUIZ = 'return document.getElementById("quiz").innerText'
PRESS = 'document.getElementById("next").click()'
PICK = '[...document.querySelectorAll("#quiz button")].find((one) => one.textContent === arguments[0]).click()'
DOTS = 'return document.querySelector("figure").querySelectorAll(".dot:not(.unset)").length'


@pytest.fixture
def laptop(browser: Any, tmp_path: Any) -> Iterator[Any]:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", LAPTOP)
    page = tmp_path / "watch.html"
    page.write_text(
        render_watch("t", [parse_design("hierarchical:tick=1,slots=8"), Design("heap")], TRACE, 60), "utf-8"
    )
    browser.get(page.as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def open_scene(browser: Any, name: str) -> None:
    browser.execute_script("history.replaceState(null, '', '#' + arguments[0]); window.onhashchange()", name)


@pytest.mark.parametrize("scene", SCENES)
def test_the_sentence_and_counters_stand_beside_the_ring(scene: str, laptop: Any) -> None:
    open_scene(laptop, scene)
    for place in laptop.execute_script(PLACES):
        assert place["what"] >= place["ring"]
        assert place["below"] <= LAPTOP["height"]


def test_the_clock_asks_for_the_slot_first(laptop: Any) -> None:
    """
    The scene of the clock asks the user for the slot of each timer, and shows it after the answer.
    """
    open_scene(laptop, "clock")
    asked = []
    for answered in range(4):
        laptop.execute_script(PRESS)
        assert laptop.execute_script(DOTS) == answered
        question, choices = laptop.execute_script(QUIZ), laptop.execute_script(ANSWERS)
        assert "which slot?" in question
        assert len(choices) == len(set(choices)) >= 3
        laptop.execute_script(PICK, choices[0])
        assert laptop.execute_script(DOTS) == answered + 1
        asked.append(laptop.execute_script(QUIZ).split()[0])
        assert "the finest ring that reaches that far" in laptop.execute_script(QUIZ)
    assert set(asked) <= {"Right.", "No,"}
    assert laptop.execute_script(LABELS) == [f"60 \N{MULTIPLICATION SIGN} 1 {unit}" for unit in ("s", "min", "h")]


@pytest.mark.skipif(not AXE.is_file(), reason="there is no npm, by which make installs axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_barrier(scheme: str, laptop: Any) -> None:
    """
    In any scene, axe finds no barrier for users with low vision or without a pointer.
    """
    laptop.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    laptop.execute_script(AXE.read_text("utf-8"))
    found = {}
    for scene in SCENES:
        open_scene(laptop, scene)
        laptop.execute_script(PRESS)
        found[scene] = laptop.execute_async_script(FINDINGS)
    laptop.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert {scene: findings for scene, findings in found.items() if findings} == {}
