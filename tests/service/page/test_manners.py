"""
General behaviour of the page: shortcuts, one message for each problem, and the rights of a token.
"""

from __future__ import annotations

from pathlib import Path

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

FAR = {"delay": 3600, "target": "log"}

# Passes thirty firings to the list in one turn; returns its rows and new rows, at once and in the end.
CROWD = """
const { Firings } = await import("/static/firings.js");
const end = { lateness_ms: 1, outcome: "succeeded", attempt: 1 };
const firing = (n) => ({ fire_id: `${n}/1/1`, key: `${n}`, fired_at: new Date(n).toISOString(), ...end });
const firings = new Firings(() => null), list = document.getElementById("firings");
const count = () => [list.children.length, list.querySelectorAll(".new").length];
const ten = (first) => Array.from({ length: 10 }, (_, i) => firing(first + i));
for (const first of [0, 10, 20]) firings.take({ firings: ten(first) });
const atOnce = count();
while (list.children.length < 30) await new Promise(requestAnimationFrame);
return [atOnce, count()];
"""

# Returns whether the latest note is on top at its centre, and the id of the dialog that it is in.
COVERS = """
const note = [...document.querySelectorAll(".toast")].at(-1), { x, y, width, height } = note.getBoundingClientRect();
note.style.pointerEvents = "auto";
return [note.contains(document.elementFromPoint(x + width / 2, y + height / 2)), note.closest("dialog")?.id ?? null];
"""
COLOURS = """
const button = document.querySelector(".toast button");
return [getComputedStyle(button).color, getComputedStyle(button.parentNode).color];
"""
HAS_FOCUS = "return document.activeElement === document.querySelector(arguments[0])"


def press(page, *keys: str) -> None:
    ActionChains(page.browser).send_keys(*keys).perform()


def test_keys(server, page):
    """
    Keyboard shortcuts search, open a view, and show the list of shortcuts.

    They do nothing while the user types, or after they were turned off.
    """
    page.open(server)
    press(page, "g", "d")
    page.wait_for(lambda: page.find("[data-view=dead]").is_displayed())
    press(page, "/")
    page.wait_for(lambda: page.run(HAS_FOCUS, "#incidents-search input"))
    page.run("document.activeElement.blur()")
    press(page, "g", "f")
    page.wait_for(lambda: page.find("[data-view=fleet]").is_displayed())
    press(page, "/")
    page.wait_for(lambda: page.run(HAS_FOCUS, "#search input"))
    press(page, "g", "f", "?")
    assert page.find("#search input").get_property("value") == "gf?"
    assert page.find("[data-view=overview]").is_displayed()
    page.run("document.activeElement.blur()")
    press(page, "?")
    page.wait_for(lambda: page.find("#keys").is_displayed())
    press(page, "g", "f")
    page.click("#keys-on")
    page.click("#keys .primary")
    page.wait_for(lambda: not page.find("#keys").is_displayed())
    press(page, "g", "w")
    page.run("document.activeElement.blur()")
    press(page, "g", "w")
    assert page.find("[data-view=overview]").is_displayed()
    page.run("localStorage.clear()")


def test_skip_to_the_jobs(server, page):
    """
    The skip link moves the focus to the list of jobs, even during a search and from another view.
    """
    filtered = "#overview?prefix=tea&state=paused"
    page.browser.get(f"http://{server.host}:{server.port}/{filtered}")
    page.wait_for(lambda: page.find("#jobs-empty").text == "No paused job matches.")
    page.find(".skip").send_keys(Keys.ENTER)
    page.wait_for(lambda: page.run(HAS_FOCUS, "#jobs"))
    fields = [page.find(f"#search [name={name}]").get_property("value") for name in ("prefix", "state")]
    assert (page.run("return location.hash"), fields) == (filtered, ["tea", "paused"])
    page.run("location.hash = '#dead'")
    page.wait_for(lambda: page.find("[data-view=dead]").is_displayed())
    page.find(".skip").send_keys(Keys.ENTER)
    page.wait_for(lambda: page.run(HAS_FOCUS, "#jobs"))
    assert page.find("[data-view=overview]").is_displayed()


def test_only_the_first_of_many_firings_are_marked(start, page):
    """
    If many firings arrive within a second, only the first ten are shown at once and marked as new.
    """
    page.open(start())
    page.wait_for(lambda: page.find("#firings-empty").is_displayed())
    assert page.run(f"return (async () => {{{CROWD}}})()") == [[10, 10], [30, 10]]


def test_one_message_for_an_unreachable_store(start, page, tmp_path):
    """
    While the store is unreachable, exactly one message says so.

    The message disappears when the store is reachable again.
    """
    away = tmp_path / "away"
    environment = {"PYTHONPATH": str(Path(__file__).parent), "TICKWHEEL_DEMO_AWAY": str(away)}
    server = start("--handlers", "demo_handlers", environment=environment)
    server.job("PUT", "stays", FAR)
    page.open(server)
    page.wait_for(lambda: page.texts("#jobs .key") == ["stays"])
    away.touch()
    page.wait_for(lambda: page.find("#trouble").is_displayed())
    page.find("#search input").send_keys("s")
    with server.live() as live:
        while live.event()[0] != "trouble":
            pass
    page.wait_for(lambda: page.find("#link").text == "store unreachable")
    assert page.texts(".toast") == []
    away.unlink()
    page.wait_for(lambda: page.find("#link").text == "live")
    assert not page.find("#trouble").is_displayed()


def test_tokens(start, page):
    """
    If the token is wrong, the page shows the reason for the refusal.

    With a read-only token, the page says that it cannot write.
    """
    server = start(environment={"TICKWHEEL_WRITE_TOKEN": "w" * 40, "TICKWHEEL_READ_TOKEN": "r" * 40})
    page.browser.get(f"http://{server.host}:{server.port}/#fleet")
    page.wait_for(lambda: page.find("#sign-in").is_displayed())
    assert not page.find("#refused").is_displayed()
    page.find("#sign-in input").send_keys("x" * 40, Keys.ENTER)
    page.wait_for(lambda: page.find("#refused").is_displayed())
    assert (
        page.find("#refused").text == "The service refuses the token of this tab: the token is not one of this service."
    )
    assert page.texts(".toast") == []
    page.wait_for(lambda: page.find("#link").text == "token needed")
    page.find("#sign-in input").send_keys("r" * 40, Keys.ENTER)
    page.wait_for(lambda: page.find("#access").text == "read-only")
    assert page.find("[data-view=fleet]").is_displayed()
    page.run("sessionStorage.setItem('tickwheel.token', arguments[0])", "w" * 40)
    page.browser.refresh()
    page.wait_for(lambda: page.find("#link").text == "live")
    assert not page.find("#access").is_displayed()


def test_undo_stays(server, page):
    """
    A note with an Undo button does not disappear while the pointer or the focus is on the button.
    """
    server.job("PUT", "undone", FAR)
    page.open(server)
    page.run("setTimeout = ((set) => (work, ms) => set(work, ms === 8000 ? window.stays ?? ms : ms))(setTimeout)")
    page.open_job("undone")
    page.click("#detail .danger", "Cancel job")
    page.click("#detail .danger", "Really cancel?")
    page.wait_for(lambda: page.find(".toast button"))
    page.run("window.stays = 300")
    ActionChains(page.browser).move_to_element(page.find(".toast button")).perform()
    assert len(set(page.run(COLOURS))) == 1
    page.run("document.querySelector('.toast button').focus()")
    page.wait_for(lambda: page.run("return new Promise((end) => setTimeout(() => end(true), 600))"))
    ActionChains(page.browser).move_to_element(page.find("h1")).perform()
    page.wait_for(lambda: page.run("return new Promise((end) => setTimeout(() => end(true), 600))"))
    ActionChains(page.browser).move_to_element(page.find(".toast button")).perform()
    page.run("document.activeElement.blur()")
    page.wait_for(lambda: page.run("return new Promise((end) => setTimeout(() => end(true), 600))"))
    page.find(".toast button").send_keys(Keys.ENTER)
    page.wait_for(lambda: page.texts("#jobs .key") == ["undone"])
    page.wait_for(lambda: page.texts(".toast") == [])
    server.job("DELETE", "undone")


def test_notes_before_a_dialog(server, page):
    """
    If a change is refused, the error is announced to screen readers and is visible above every dialog.
    """
    for key in ("noted", "noted/too"):
        server.job("PUT", key, {"every": 600, "target": "log"})
    page.browser.get(f"http://{server.host}:{server.port}/#job/noted")
    page.click("#detail summary", "Edit")
    page.run("setTimeout = ((set) => (work, ms) => ms !== 8000 && set(work, ms))(setTimeout)")  # notes do not disappear
    page.fill(".edit [name=every]", "often")
    page.click(".edit button", "Save")
    page.wait_for(lambda: "every is 'often'" in "".join(page.texts(".toast")))
    assert page.run(COVERS) == [True, "detail"]
    assert any("every is 'often'" in name for name in heard(page))
    page.run("location.hash = '#job/noted%2Ftoo'")
    page.wait_for(lambda: page.texts("#detail-title") == ["noted/too"])
    assert page.run(COVERS) == [True, "detail"]
    page.click("#detail [aria-label=Close]")
    page.wait_for(lambda: page.texts("#detail-title") == [])
    assert page.run(COVERS) == [True, None]
    press(page, "?")
    page.wait_for(lambda: page.run(COVERS) == [True, "keys"])
    page.click("#keys .primary")
    page.wait_for(lambda: page.run(COVERS) == [True, None])
    for key in ("noted", "noted/too"):
        server.job("DELETE", key)


def heard(page) -> list[str]:
    """
    Return all texts that a screen reader would announce.
    """
    nodes = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [str(node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]


def test_recent_acts(server, page):
    """
    The list of recent acts can undo each act once, even after its note has disappeared.
    """
    server.job("PUT", "acted", FAR)
    page.open(server)
    assert not page.find("#show-acts").is_displayed()
    page.open_job("acted")
    page.click("#detail .pause button", "Pause")
    page.wait_for(lambda: page.texts(".toast"))
    page.run("document.querySelector('.toast').remove()")
    page.wait_for(lambda: not page.run("return document.getElementById('detail').open"))
    page.click("#show-acts")
    page.wait_for(lambda: "Paused acted" in page.texts("#acts-list li")[0])
    page.click("#acts-list button", "Undo")
    page.wait_for(lambda: server.job("GET", "acted").json["pause"] is None)
    page.wait_for(lambda: page.texts("#acts-list button") == [])
    page.click("#acts button", "Close")
    server.job("DELETE", "acted")


def test_palette(server, page):
    """
    The command palette finds views by name, and jobs by the beginning of their keys.

    A screen reader announces the selected result.
    """
    server.job("PUT", "palette/one", FAR)
    server.job("PUT", "palette/two", FAR)
    page.open(server)
    box = page.find("#palette-input")

    def open_palette():
        ActionChains(page.browser).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
        page.wait_for(box.is_displayed)

    open_palette()
    box.send_keys("lett")
    page.wait_for(lambda: page.texts("#palette-list li") == ["Dead letters"])
    box.send_keys(Keys.ENTER)
    page.wait_for(lambda: page.find("[data-view=dead]").is_displayed())
    open_palette()
    box.send_keys("palette/")
    page.wait_for(lambda: page.texts("#palette-list li") == ["palette/onepending", "palette/twopending"])
    box.send_keys(Keys.ARROW_DOWN)
    chosen = page.find(f"#{box.get_attribute('aria-activedescendant')}")
    assert (chosen.text.split()[0], chosen.get_attribute("aria-selected")) == ("palette/two", "true")
    box.send_keys(Keys.ENTER)
    page.wait_for(lambda: page.texts("#detail-title") == ["palette/two"])
    page.click("#detail [aria-label=Close]")
    open_palette()
    box.send_keys("nothing has this")
    page.wait_for(lambda: page.find("#palette-none").is_displayed())
    box.send_keys(Keys.ENTER, Keys.ESCAPE)
    page.wait_for(lambda: not box.is_displayed())
    for key in ("palette/one", "palette/two"):
        server.job("DELETE", key)


def test_arrows_before_anything_is_found(server, page):
    """
    If the user presses arrow keys before there are results, the first result is selected.
    """
    for key in ("arrows/one", "arrows/two"):
        server.job("PUT", key, FAR)
    page.open(server)
    page.hold("prefix=arrows")
    ActionChains(page.browser).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    box = page.find("#palette-input")
    page.wait_for(box.is_displayed)
    page.fill("#palette-input", "arrows/")
    page.wait_until_held()
    assert page.find("#palette-none").is_displayed()
    box.send_keys(Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
    page.let_go()
    assert page.texts("#palette-list [aria-selected=true]") == ["arrows/onepending"]
    box.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    page.wait_for(lambda: page.texts("#detail-title") == ["arrows/two"])
    for key in ("arrows/one", "arrows/two"):
        server.job("DELETE", key)


def test_each_figure_names_its_processes_and_period(server, page):
    """
    A text beside each figure says which period the figure covers, and whether it covers one process or all processes.
    """
    page.open(server)
    page.wait_for(lambda: page.texts("#figures b"))
    groups = page.run(GROUPS)
    assert groups == {
        "Of all processes, now": ["Pending", "Running", "Dead"],
        "Of this process, since its start": ["Fired", "Failed", "Late, p50", "Late, p99", "Late, most"],
    }
    assert all(title.is_displayed() for title in page.browser.find_elements("css selector", "#figures h3"))
    assert page.find("#next-title").text == "What falls due, of all processes"
    legend = page.find("#river-ends").text
    assert (legend.split(":")[0], legend.split("died")[1].strip()) == (
        "Left, fired by this process",
        "Right: due, of all processes",
    )


def test_the_files_of_the_page_are_small(server, page):
    """
    All files of the page together are smaller than 200 kB.
    """
    page.open(server)
    first = page.run(SIZE)
    for view, place in LATER.items():
        page.run("location.hash = arguments[0]", view)
        page.wait_for(lambda place=place: page.texts(place))
    assert 100_000 < first < page.run(SIZE) < 200_000


LATER = {"schedules": "#schedules-empty", "fleet": "#lanes .lane", "wheel": "#levels tbody tr"}
"""For each view with its own JavaScript module, the selector of an element that exists after the module was loaded."""

GROUPS = """
return Object.fromEntries([...document.querySelectorAll("#figures .group")].map((group) => [
  group.querySelector("h3").textContent,
  [...group.querySelectorAll(".figure span")].map((name) => name.textContent),
]));
"""
SIZE = """
const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
return all.filter(({ name }) => !name.includes("/v1/")).reduce((sum, each) => sum + each.decodedBodySize, 0);
"""
