"""
The wheel turning: frames that show what happened, and a page that shows the frames.
"""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tickwheel.lab.designs import Design, parse_design
from tickwheel.lab.generate import Load, generate
from tickwheel.lab.trace import TraceOperation
from tickwheel.lab.tune import facts_of
from tickwheel.lab.watch import Recorder, render_watch, small
from tickwheel.wheels import CARDS

TRACE = list(generate(Load("connections", seconds=120, size=2, seed=5)))


@pytest.mark.parametrize("name", CARDS)
def test_frames_account_for_every_entry(name: str) -> None:
    """
    In each frame the slots hold what is pending, time goes on, and pointers stand in slots that there are.
    """
    recorder = Recorder(small(Design(name), facts_of(TRACE)), frames=400)
    frames = recorder.play(TRACE)
    assert len(frames) == 400
    assert {frame["kind"] for frame in frames} >= {"start", "set", "move", "cancel"}
    for before, frame in pairwise(frames):
        assert before["t"] <= frame["t"]
        assert sum(count for _, held in frame["rings"] for _, count in held) == frame["pending"]
        for shape, (pointer, held) in zip(recorder.shape, frame["rings"], strict=False):
            assert pointer is None or 0 <= pointer < shape["slots"]
            assert all(0 <= index < shape["slots"] for index, _ in held)


def test_a_cascade_is_a_frame_of_its_own() -> None:
    """
    A timer from afar is seen to be set into a coarse ring, to cascade into a finer one, and to fire.
    """
    recorder = Recorder(parse_design("hierarchical:tick=1,slots=4"))
    frames = recorder.play([TraceOperation(0, "S", "tea", 21_000_000)])
    told = [(frame["kind"], frame["t"] // 10**9) for frame in frames]
    assert told == [("start", 0), ("set", 0), ("cascade", 16), ("cascade", 20), ("fire", 21)]
    rings = [[index for index, (_, held) in enumerate(frame["rings"]) if held] for frame in frames]
    assert rings == [[], [3], [2], [1], []]
    assert frames[2]["text"] == "cascade: 1 filed again, in a finer ring"


def test_texts() -> None:
    """
    A frame says what happened to which timer.
    """
    operations = [TraceOperation(0, "S", key, 1_000_000) for key in "abcde"]
    operations += [TraceOperation(10, "S", "a", 2_500_000), TraceOperation(20, "C", "b", 0)]
    frames = Recorder(parse_design("rounds:tick=1,slots=8")).play(operations)
    texts = [frame["text"] for frame in frames]
    assert texts[1] == "set a to fire in 1 s"
    assert texts[6:] == ["move a to 2.5 s from now", "cancel b", "fire c, d, e", "fire a"]


def test_the_native_wheel_sorts_a_slot_when_it_begins() -> None:
    """
    On the native wheel a timer lies in one coarse slot until that begins, and is then sorted, to fire at its instant.
    """
    recorder = Recorder(Design("native"))
    frames = recorder.play([TraceOperation(0, "S", "tea", 21_000_000)])
    told = [(frame["kind"], frame["t"]) for frame in frames]
    begins = 21 * 10**9 >> 34 << 34
    assert told == [("start", 0), ("set", 0), ("cascade", begins), ("fire", 21 * 10**9)]
    rings = [[index for index, (_, held) in enumerate(frame["rings"]) if held] for frame in frames]
    assert [recorder.shape[ring[0]]["name"] for ring in rings if ring] == ["level 4", "begun"]
    assert frames[2]["text"] == "a slot begins: 1 sorted, to fire each at its instant"


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("delay_us", [0, -3])
def test_a_delay_of_nothing_fires_at_once(name: str, delay_us: int) -> None:
    """
    What is due when it is set is fired before the next operation, at a time that does not go back.
    """
    operations = [TraceOperation(5_000_000, "S", "now", delay_us), TraceOperation(6_000_000, "S", "tea", 1_000_000)]
    options = {"tick": 1.0} if "tick" in CARDS[name].options else {}
    frames = Recorder(Design(name, options)).play(operations)
    kinds = [frame["kind"] for frame in frames if frame["kind"] != "cascade"]
    assert kinds == ["start", "set", "fire", "set", "fire"]
    times = [frame["t"] for frame in frames]
    assert times == sorted(times)
    assert times[kinds.index("fire")] == 5_000_000_000


def test_what_was_given_is_watched() -> None:
    """
    A geometry that was given is kept.
    """
    design = parse_design("rounds:tick=3,slots=9")
    assert small(design, facts_of(TRACE)) == design


def document_of(page: str) -> dict[str, list[dict[str, object]]]:
    """
    Return the frames and the shape that a page holds.
    """
    document = re.search(r'id="document">(.*?)</script>', page, re.DOTALL)
    assert document is not None
    found: dict[str, list[dict[str, object]]] = json.loads(document[1])
    return found


def test_the_page_stands_alone() -> None:
    """
    The page holds its frames, forbids itself to fetch anything, and a key cannot break out of it.
    """
    operations = [TraceOperation(0, "S", "</script><b>", 1_000_000), *TRACE[:50]]
    page = render_watch("<connections>", parse_design("rounds:tick=1,slots=8"), operations)
    assert "default-src 'none'" in page
    assert "&lt;connections&gt;" in page
    assert "</script><b>" not in page
    assert not re.search(r'(src|href)="', page)
    assert document_of(page)["frames"][1]["text"] == "set </script><b> to fire in 1 s"


@pytest.mark.slow
@pytest.mark.parametrize("name", CARDS)
def test_a_browser_draws_it(name: str, tmp_path: Path) -> None:
    """
    In a browser the page draws every ring with its slots, and the frame that the address asks for.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium is installed")
    path = tmp_path / "watch.html"
    path.write_text(render_watch("connections", small(Design(name), facts_of(TRACE)), TRACE, 120), "utf-8")
    document = document_of(path.read_text("utf-8"))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=1000", "--dump-dom", f"{path.as_uri()}#100"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    slots = sum(ring["slots"] for ring in document["shape"])
    assert len(re.findall(r'class="(?:cell )?slot', answer.stdout)) == slots
    assert len(re.findall(r"<figure>", answer.stdout)) == len(document["shape"])
    assert f">{document['frames'][100]['text']}</span>" in answer.stdout
