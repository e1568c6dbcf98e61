"""
The river of time on the page. Each firing is a dot, and the width of the river shows how many jobs are due.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

SOON = ["soon/0", "soon/1", "soon/2"]
KEYS = 24  # enough that both nodes have some of the keys in their shards
DEAD = {"delay": 0, "handler": "fails", "retry": {"attempts": 1}}

# Returns the place of a pixel in the legend's colour for an outcome, from the middle of the canvas, or null.
FIND = """
const canvas = document.getElementById("river"), marks = document.querySelectorAll("#river-ends .end > span");
const mark = [...marks].find((each) => each.parentElement.textContent.endsWith(arguments[0]));
const wanted = getComputedStyle(mark).color.match(/[0-9]+/g).map(Number);
const { width, height } = canvas;
const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
copy.drawImage(canvas, 0, 0);
const { data } = copy.getImageData(0, 0, width, height);
for (let i = 0; i < data.length; i += 4)
  if (wanted.every((part, place) => data[i + place] === part)) {
    const x = (i / 4) % width, y = Math.floor(i / 4 / width);
    const { clientWidth, clientHeight } = canvas;
    return [x / devicePixelRatio - clientWidth / 2, y / devicePixelRatio - clientHeight / 2].map(Math.round);
  }
return null;
"""
# Counts the different pictures of the river in a second and a half.
PICTURES = """
const done = arguments[0], canvas = document.getElementById("river"), seen = new Set(), begun = performance.now();
const look = () => {
  seen.add(canvas.toDataURL());
  if (performance.now() - begun < 1500) requestAnimationFrame(look);
  else done([seen.size, (performance.now() - begun) / 1000]);
};
look();
"""

# Counts how often the river is drawn in two seconds.
DRAWINGS = """
const done = arguments[0], kind = CanvasRenderingContext2D.prototype, clear = kind.clearRect;
let count = 0;
kind.clearRect = function (...place) {
  if (this.canvas.id === "river") count++;
  return clear.apply(this, place);
};
setTimeout(() => ((kind.clearRect = clear), done(count)), 2000);
"""

# Removes the mark for the deploy that is recorded when a server starts.
NO_DEPLOYS = """
const ask = window.fetch;
window.fetch = (path, options) =>
  String(path).includes("/v1/acts") ? Promise.resolve(new Response('{"acts": []}')) : ask(path, options);
"""


def attribute(page, name: str) -> str:
    """
    Return an attribute of the river, for example its accessible text.
    """
    return page.find("#river").get_attribute(name) or ""


@pytest.fixture
def soon(server, page):
    """
    Open the page with three jobs due in 25 minutes and one job due tomorrow.

    The fixture removes them at the end.
    """
    keys = [*SOON, "later"]
    for number, key in enumerate(keys):
        server.job("PUT", key, {"delay": 1500 + number if key in SOON else 80_000, "target": "log"})
    page.open(server)
    page.wait_for(lambda: "In the next day: 4 due" in attribute(page, "aria-label"))
    yield
    for key in keys:
        server.job("DELETE", key)


@pytest.fixture
def letter(server):
    """
    Return the key of a job that has just died.
    """
    with server.live() as live:
        server.job("PUT", "letter", DEAD)
        live.firing("letter", "died")
    yield "letter"
    server.job("DELETE", "letter")


def test_firings_are_dots(server, page, letter):
    """
    A firing is a dot in the colour of its outcome. The dot shows the key and lateness, and a press opens the job.
    """
    page.open(server)
    page.wait_for(lambda: "1 died" in attribute(page, "aria-label"))

    def succeeded() -> bool:  # the dot of a dead job covers it while both have nearly the same time and lateness
        server.job("PUT", "well", {"delay": 0, "handler": "works"})
        return page.run(FIND, "succeeded") is not None

    page.wait_for(succeeded)

    def at_letter() -> ActionChains:
        x, y = page.run(FIND, "died")
        return ActionChains(page.browser, duration=0).move_to_element_with_offset(page.find("#river"), x + 3, y + 3)

    def point() -> bool:  # repeated, because the river flows
        at_letter().perform()
        return f"{letter}: died, +" in page.find("#river-said").text

    def press() -> bool:
        at_letter().click().perform()
        return page.run("return location.hash") == f"#job/{letter}"

    page.wait_for(point)
    page.wait_for(press)
    page.wait_for(lambda: page.texts("#detail-title") == [letter])


def test_firings_of_other_nodes(postgres_url, start, page):
    """
    The river shows the firings of both nodes, and each dot has the name of the node that fired.
    """
    options = ("--store", f"{postgres_url}&shards=4&lease_s=6", "--handlers", "service_handlers")
    here, there = (start(*options, environment={"PYTHONPATH": str(Path(__file__).parents[1])}) for _ in range(2))
    page.wait_for(lambda: [len(node["shards"]) for node in here.ask("GET", "/v1/fleet").json["nodes"]] == [2, 2])
    for number in range(KEYS):
        here.job("PUT", f"tea/{number}", {"delay": 0, "handler": "works"})
    page.open(here)
    page.wait_for(lambda: f": {KEYS} firings: {KEYS} succeeded," in attribute(page, "aria-label"))
    legend = "Left, fired by this process and by 1 other (the last 50 of each report):"
    assert page.find("#river-ends").text.startswith(legend)
    by_here, by_there = (node.ask("GET", "/v1/firings?nodes=this").json["firings"] for node in (here, there))
    assert by_here
    assert len(by_here) + len(by_there) == KEYS
    key, node = by_there[0]["key"], by_there[0]["by"]
    here.job("PUT", key, DEAD)

    def point() -> bool:  # repeated, because the river flows
        x, y = page.run(FIND, "died")
        pointer = ActionChains(page.browser, duration=0)
        pointer.move_to_element_with_offset(page.find("#river"), x + 3, y + 3).perform()
        said = page.find("#river-said").text
        return f"{key}: died, +" in said and said.endswith(f", on {node}")

    page.wait_for(lambda: page.run(FIND, "died"))
    page.wait_for(point)
    page.wait_for(lambda: f"{KEYS + 1} firings: {KEYS} succeeded, 1 died," in attribute(page, "aria-label"))


@pytest.mark.usefixtures("soon")
def test_drag(server, page):
    """
    If the user drags the pointer along the river, a span of time is selected.

    The jobs that are due in the span are counted, and can then be changed.
    """
    river = page.find("#river")
    half = river.size["width"] / 2
    drag = ActionChains(page.browser).move_to_element_with_offset(river, round(0.45 * half), 0).click_and_hold()
    drag.move_by_offset(round(0.2 * half), 0).perform()
    page.wait_for(lambda: page.find("#river-said").text.endswith("about 3 jobs due"))
    ActionChains(page.browser).release().perform()
    page.wait_for(lambda: page.texts("#jobs .key") == SOON)
    assert "#overview?from=" in page.browser.current_url
    page.find("#bulk select").send_keys("Cancel")
    page.click("#bulk button", "Count them")
    page.click("#bulk button", "Cancel 3 jobs")
    page.wait_for(lambda: page.texts("#jobs .key") == [])
    assert server.job("GET", "later").status == 200


@pytest.mark.usefixtures("soon")
def test_keys(page):
    """
    With the keyboard, the user can select a span of future time, hear its number of jobs, and list these jobs.
    """
    river = page.find("#river")
    river.send_keys(Keys.ARROW_RIGHT, Keys.PAGE_UP, Keys.PAGE_UP)
    page.wait_for(lambda: attribute(page, "aria-valuetext").endswith("about 0 jobs due"))
    river.send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    page.wait_for(lambda: attribute(page, "aria-valuetext").endswith("about 3 jobs due"))
    assert attribute(page, "aria-valuetext") == page.find("#river-said").text
    river.send_keys(Keys.ENTER)
    page.wait_for(lambda: page.texts("#jobs .key") == SOON)
    page.wait_for(lambda: page.run("return document.activeElement.name") == "verb")
    page.click("#bulk button", "Count them")
    page.wait_for(lambda: page.texts("#bulk button") == ["Pause 3 jobs"])
    river.send_keys(Keys.ESCAPE)
    page.wait_for(lambda: attribute(page, "aria-valuetext") == "now")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("verb", ["Spread", "Pause"])
def test_only_jobs_in_the_span_are_changed(server, page, verb):
    """
    Only the jobs that are due in the selected span are spread or paused.
    """
    later = server.job("GET", "later").json
    page.find("#river").send_keys(Keys.ARROW_RIGHT, Keys.PAGE_UP, Keys.PAGE_UP, Keys.SHIFT, Keys.ARROW_RIGHT)
    page.wait_for(lambda: attribute(page, "aria-valuetext").endswith("about 3 jobs due"))
    page.find("#river").send_keys(Keys.ENTER)
    page.wait_for(lambda: page.texts("#jobs .key") == SOON)
    page.wait_for(lambda: page.run("return document.activeElement.name") == "verb")
    page.find("#bulk select").send_keys(verb)
    page.click("#bulk button", "Count them")
    page.click("#bulk button", f"{verb} 3 jobs")
    page.wait_for(lambda: "Changed 3 jobs" in "".join(page.texts(".toast")))
    jobs = [server.job("GET", key).json for key in SOON]
    dues = [datetime.fromisoformat(job["due_at"]).timestamp() for job in jobs]
    assert (max(dues) - min(dues) > 10) == (verb == "Spread")
    assert [job["pause"] is not None for job in jobs] == [verb == "Pause"] * 3
    assert server.job("GET", "later").json == later


def test_the_past(server, page, letter):
    """
    If the user selects a span of the past, the page shows its firings, and its dead letters can be replayed.
    """
    page.open(server)
    river = page.find("#river")
    river.send_keys(Keys.HOME, Keys.SHIFT, Keys.PAGE_UP, *[Keys.ARROW_RIGHT] * 4)
    page.wait_for(lambda: "died" in attribute(page, "aria-valuetext"))
    river.send_keys(Keys.ENTER)
    page.wait_for(lambda: page.texts("#jobs .key") == [letter])
    assert "state=dead&from=" in page.browser.current_url
    page.click("#bulk button", "Count them")
    page.wait_for(lambda: page.texts("#bulk button") == ["Replay 1 job"])
    before = server.job("GET", letter).json["generation"]
    page.click("#bulk button", "Replay 1 job")
    page.wait_for(lambda: server.job("GET", letter).json["generation"] > before)


@pytest.mark.usefixtures("letter")
def test_less_motion(server, page):
    """
    The river moves in every frame, or once a second if the user prefers reduced motion.
    """

    def pictures() -> tuple[int, float]:
        return page.browser.execute_async_script(PICTURES)

    page.open(server)
    page.wait_for(lambda: page.run(FIND, "died"))

    def flows() -> bool:
        seen, seconds = pictures()
        return seen > seconds + 4

    page.wait_for(flows)
    media = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        page.open(server)
        page.wait_for(lambda: page.run(FIND, "died"))
        page.wait_for(lambda: not flows())
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_river_rests_while_nothing_moves(start, page):
    """
    While nothing in the river moves, it is not drawn again, until a job will soon be due.
    """
    server = start()
    added = page.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NO_DEPLOYS})
    try:
        page.open(server)
        page.wait_for(lambda: page.find("#jobs-empty").is_displayed())
        page.wait_for(lambda: page.browser.execute_async_script(DRAWINGS) <= 1)
        server.job("PUT", "near", {"delay": 40, "target": "log"})
        page.wait_for(lambda: page.browser.execute_async_script(DRAWINGS) > 4)
    finally:
        page.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
