"""
Films of wheels at work, which show where each timer moves and why. A page plays them.
"""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tickwheel.lab._counting import counted
from tickwheel.lab._scenes import OWN_US, clock_face, own_timer, scenes
from tickwheel.lab.designs import Design, parse_design
from tickwheel.lab.film import CANCELLED, FIRED, Film, Recorder
from tickwheel.lab.generate import Load, generate
from tickwheel.lab.trace import TraceOperation
from tickwheel.lab.tune import facts_of
from tickwheel.lab.watch import render_watch, small
from tickwheel.wheels import CARDS, HeapWheel

TRACE = list(generate(Load("connections", seconds=120, size=2, seed=5)))


def filmed(text: str, operations: list[TraceOperation], most: int = 400) -> Film:
    return Recorder(parse_design(text).make(), most).play(operations)


def told(film: Film) -> list[tuple[str, float]]:
    """
    Return the kind and the time in seconds of each step in *film*.
    """
    return [(step["k"], step["t"] / 1e9) for step in film["steps"]]


def fires(film: Film, key: str) -> list[float]:
    """
    Return the times in seconds at which the timer *key* fires in *film*.
    """
    number = film["timers"].index(key)
    moves = [(step["t"] / 1e9, move) for step in film["steps"] for move in step.get("m", ())]
    return [t for t, (timer, ring, _) in moves if (timer, ring) == (number, FIRED)]


@pytest.mark.parametrize("name", CARDS)
def test_a_film_keeps_every_timer_in_its_place(name: str) -> None:
    """
    At each step of a film, each slot has as many timers as the wheel itself counts in it.
    """
    wheel = small(Design(name), facts_of(TRACE)).make()
    counts: list[dict[tuple[int, int], int]] = []

    class Checked(Recorder):
        def _step(self, *arguments: Any, **options: Any) -> None:
            super()._step(*arguments, **options)
            rings = enumerate(wheel.rings())
            counts.append({(number, slot): count for number, ring in rings for slot, count in ring.counts.items()})

    film = Checked(wheel, 400).play(TRACE)
    assert len(film["steps"]) == 400
    places: dict[int, tuple[int, int]] = {}
    for step, counted_by_wheel in zip(film["steps"], counts, strict=False):
        places.update({timer: (ring, slot) for timer, ring, slot in step.get("m", ())})
        held = [place for place in places.values() if place[0] not in {FIRED, CANCELLED}]
        assert {place: held.count(place) for place in held} == counted_by_wheel
    assert all(before["t"] <= step["t"] for before, step in pairwise(film["steps"]))
    assert all(a <= b for before, step in pairwise(film["steps"]) for a, b in zip(before["c"], step["c"], strict=True))


def test_a_cascade_is_a_separate_step() -> None:
    """
    A film shows in separate steps how a far timer is put into a coarse ring, cascades into finer rings, and fires.
    """
    film = filmed("hierarchical:tick=1,slots=4", [TraceOperation(0, "S", "tea", 21_000_000)])
    assert told(film) == [("start", 0), ("set", 0), ("cascade", 16), ("cascade", 20), ("fire", 21)]
    assert [step.get("m") for step in film["steps"]] == [None, [[0, 3, 1]], [[0, 2, 1]], [[0, 1, 1]], [[0, FIRED, 0]]]
    assert film["steps"][2]["x"] == "cascade: 1 timer filed again, in a finer ring"
    assert film["why"][film["steps"][1]["y"]].startswith("It drops into wheel 2, slot 1")


def test_texts() -> None:
    """
    Each step of a film has a text that says what happened, and to which timer.
    """
    operations = [TraceOperation(0, "S", key, 1_000_000) for key in "abcde"]
    operations += [TraceOperation(10, "S", "a", 2_500_000), TraceOperation(20, "C", "b", 0)]
    texts = [step["x"] for step in filmed("rounds:tick=1,slots=8", operations)["steps"]]
    assert texts[1] == "set a to fire in 1 s"
    assert texts[6:] == ["move a to 2.5 s from now", "cancel b", "fire c, d, e", "fire a"]


def test_a_long_delay_is_told_in_hours_and_minutes() -> None:
    film = clock_face()["runs"][0]["films"][0]
    assert "set guests to fire in 2 h 15 min 30 s" in [step["x"] for step in film["steps"]]
    assert any(why.endswith("a slot is 1 h.") for why in film["why"])


def test_the_native_wheel_sorts_a_slot_when_it_begins() -> None:
    """
    In the native wheel, a timer waits in a coarse slot, and is sorted when the time span of this slot begins.
    """
    film = filmed("native", [TraceOperation(0, "S", "tea", 21_000_000)])
    begins = (21 * 10**9 >> 34 << 34) / 1e9
    assert told(film) == [("start", 0), ("set", 0), ("cascade", begins), ("fire", 21)]
    assert [film["rings"][step["m"][0][1]] for step in film["steps"][1:3]] == ["level 4", "begun"]
    assert film["steps"][2]["x"] == "a slot begins: 1 sorted, to fire each at its instant"


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("delay_us", [0, -3])
def test_a_delay_of_zero_fires_at_once(name: str, delay_us: int) -> None:
    """
    A timer that is already due when it is set fires before the next operation.
    """
    operations = [TraceOperation(5_000_000, "S", "now", delay_us), TraceOperation(6_000_000, "S", "tea", 1_000_000)]
    options = {"tick": 1.0} if "tick" in CARDS[name].options else {}
    steps = Recorder(Design(name, options).make(), 400).play(operations)["steps"]
    found = [(step["k"], step["t"]) for step in steps if step["k"] != "cascade"]
    assert [kind for kind, _ in found] == ["start", "set", "fire", "set", "fire"]
    assert [t for _, t in found] == sorted(t for _, t in found)
    assert found[2] == ("fire", 0)


def test_comparisons_of_a_heap_are_counted() -> None:
    """
    In the film of a heap, comparisons are counted, and the compared entries are shown.
    """
    wheel = HeapWheel()
    first = wheel.insert(10, None)
    with counted() as comparisons:
        second = wheel.insert(5, None)
    wheel.insert(1, None)
    assert (comparisons.count, comparisons.ids) == (1, {first, second})


def test_scenes_show_their_faults() -> None:
    """
    Each scene shows a wheel with the fault that the text describes, and a correct wheel.
    """
    films = {scene["id"]: scene["runs"][0]["films"] for scene in scenes()}
    early, on_time = films["early"]
    assert [fires(early, "lease a"), fires(on_time, "lease a")] == [[2], [3]]
    raw, right = films["lost-move"]
    assert [fires(raw, "retry"), fires(right, "retry")] == [[15], [7]]
    coarse, exact = films["coarse-tick"]
    assert [fires(coarse, "1 ms"), fires(exact, "1 ms")] == [[0.01], [0.001]]
    (cascade,) = (step for step in films["burst"][0]["steps"] if step["k"] == "cascade")
    assert cascade["x"].startswith("cascade: 60 timers")
    assert len(cascade["m"]) == 60


def test_the_burst_comes_within_ten_steps() -> None:
    (burst,) = (scene for scene in scenes() if scene["id"] == "burst")
    opens_at = burst["opens_at"]
    steps = burst["runs"][0]["films"][0]["steps"][opens_at : opens_at + 10]
    assert steps[0]["k"] == "set"
    assert [len(step["m"]) for step in steps if step["k"] == "cascade"][:1] == [60]


def test_the_first_scene_is_a_clock() -> None:
    """
    The first scene shows a wheel like a clock, with rings of 60 slots for seconds, minutes and hours.
    """
    film = clock_face()["runs"][0]["films"][0]
    shapes = {ring: (slots, ns) for step in film["steps"] for ring, slots, ns in step.get("s", ()) if ns}
    assert list(shapes.values()) == [(60, 10**9), (60, 60 * 10**9), (60, 3600 * 10**9)]
    sets = [step["m"][0] for step in film["steps"] if step["k"] == "set"]
    assert [(shapes[ring][1] // 10**9, slot) for _, ring, slot in sets] == [(1, 5), (60, 3), (60, 45), (3600, 2)]
    assert [fires(film, key) for key in film["timers"]] == [[5], [200], [2710], [8130]]


def test_every_delay_that_a_user_can_choose_was_recorded() -> None:
    """
    For each delay that a user can choose, each wheel design has a recorded run in which the timer fires in time.
    """
    chapter = own_timer()
    for delay_us, run in zip(OWN_US, chapter["runs"], strict=True):
        for film in run["films"]:
            (at,) = fires(film, "yours")
            assert 0 <= at - 0.1 - delay_us / 1e6 <= 1


def test_a_given_geometry_is_used() -> None:
    """
    If the user gives a geometry, it is used unchanged.
    """
    design = parse_design("rounds:tick=3,slots=9")
    assert small(design, facts_of(TRACE)) == design


def document_of(page: str) -> dict[str, Any]:
    document = re.search(r'id="document">(.*?)</script>', page, re.DOTALL)
    assert document is not None
    found: dict[str, Any] = json.loads(document[1])
    return found


def trace_of(page: str) -> dict[str, Any]:
    (chapter,) = (each for each in document_of(page)["chapters"] if each["id"] == "trace")
    found: dict[str, Any] = chapter
    return found


def test_the_page_stands_alone() -> None:
    """
    The page contains the recordings that it shows, and loads nothing else.
    """
    operations = [TraceOperation(0, "S", "</script><b>", 1_000_000), *TRACE[:50]]
    page = render_watch("<connections>", [parse_design("rounds:tick=1,slots=8"), Design("heap")], operations)
    assert "default-src 'none'" in page
    assert "&lt;connections&gt;" in page
    assert "</script><b>" not in page
    assert not re.search(r'(src|href)="', page)
    assert trace_of(page)["runs"][0]["films"][0]["steps"][1]["x"] == "set </script><b> to fire in 1 s"


@pytest.mark.slow
@pytest.mark.parametrize("name", CARDS)
def test_a_browser_draws_it(name: str, tmp_path: Path) -> None:
    """
    A browser that opens the page draws a dot for every timer.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium is installed")
    path = tmp_path / "watch.html"
    path.write_text(render_watch("connections", [small(Design(name), facts_of(TRACE))], TRACE, 120), "utf-8")
    (film,) = trace_of(path.read_text("utf-8"))["runs"][0]["films"]
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=1000", "--dump-dom", f"{path.as_uri()}#trace/100/{film['timers'][0]}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert len(re.findall(r'class="dot ', answer.stdout)) == len(film["timers"])
    assert len(re.findall(r'class="dot [a-z]* followed', answer.stdout)) == 1
    assert f"{film['steps'][100]['x']}</p>" in answer.stdout
    assert "<li>" in answer.stdout
