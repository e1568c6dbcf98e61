"""
Rows do not move while the pointer or the focus is on their list.
"""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains

DEAD = {"delay": 0, "handler": "fails", "retry": {"attempts": 1}}
KEYS = ["calm/1", "calm/2", "calm/3"]
GONE = "return [...document.querySelectorAll('#jobs [data-gone] .key')].map((node) => node.textContent)"
NEWS = "return document.querySelector(arguments[0]).dataset.news ?? null"

JUMP = """
    const row = document.querySelector("#firings .row"), chart = document.querySelector("#lateness");
    if (!row || !chart.firstChild) return null;
    const there = row.getBoundingClientRect().top;
    chart.replaceChildren();
    return [row.getBoundingClientRect().top - there];
"""
"""A script that measures by how many pixels the first firing moves when the chart above it is redrawn."""


@pytest.fixture
def calm(server, page):
    """
    Open the page with three jobs that are due one after another.

    The fixture removes all jobs at the end.
    """
    for number, key in enumerate(KEYS, 1):
        server.job("PUT", key, {"delay": 1000 * number, "target": "log"})
    page.open(server)
    page.find("#search input").send_keys("calm/")
    page.wait_for(lambda: page.texts("#jobs .key") == KEYS)
    yield
    for key in [*KEYS, "calm/0", "calm/2b"]:
        server.job("DELETE", key)


def point(page, selector: str) -> None:
    ActionChains(page.browser, duration=0).move_to_element(page.find(selector)).perform()


def note_of_new_rows(page, selector: str) -> str | None:
    """
    Return the note above a list that says how many new rows are not shown yet, or None.
    """
    return page.run(NEWS, selector)


@pytest.mark.usefixtures("calm")
def test_under_the_pointer(server, page):
    """
    While the pointer is on a list, its rows keep their place and show current values. New rows are only counted.
    """
    point(page, "#jobs li:nth-child(2) .row")
    server.job("PUT", "calm/0", {"delay": 500, "target": "log"})
    page.wait_for(lambda: note_of_new_rows(page, "#jobs") == "1 new")
    server.job("DELETE", "calm/1")
    server.job("PUT", "calm/3", {"delay": 5000, "target": "log", "handler": "later"})
    page.wait_for(lambda: page.run(GONE) == ["calm/1"])
    page.wait_for(lambda: page.texts("#jobs .where")[2] == "log later")
    assert page.texts("#jobs .key") == KEYS
    point(page, "h1")
    page.wait_for(lambda: page.texts("#jobs .key") == ["calm/0", "calm/2", "calm/3"])
    assert (page.run(GONE), note_of_new_rows(page, "#jobs")) == ([], None)


@pytest.mark.usefixtures("calm")
def test_with_the_focus(server, page):
    """
    While a row has the focus, it keeps its place.

    A new search is still answered at once.
    """
    page.run("document.querySelector('#jobs li:nth-child(2) .row').focus()")
    server.job("DELETE", "calm/1")
    page.wait_for(lambda: page.run(GONE) == ["calm/1"])
    page.run("document.activeElement.blur()")
    page.wait_for(lambda: page.texts("#jobs .key") == KEYS[1:])
    point(page, "#jobs li:nth-child(2) .row")
    server.job("PUT", "calm/2b", {"delay": 2500, "target": "log"})
    page.wait_for(lambda: note_of_new_rows(page, "#jobs") == "1 new")
    page.fill("#search input", "calm/2")
    page.wait_for(lambda: page.texts("#jobs .key") == ["calm/2", "calm/2b"])
    assert note_of_new_rows(page, "#jobs") is None


def test_the_first_firing(server, page):
    """
    The first firing makes the page draw a chart above the list. A row under the pointer keeps its place.
    """
    page.open(server)
    server.job("PUT", "alone", {"delay": 0, "handler": "works"})
    (jump,) = page.wait_for(lambda: page.run(JUMP))
    assert abs(jump) < 1


def test_firings(server, page):
    """
    While the pointer is on the list of firings, or after the button "Hold", new firings are only counted.
    """
    page.open(server)
    server.job("PUT", "first", {"delay": 0, "handler": "works"})
    page.wait_for(lambda: page.texts("#firings .key")[:1] == ["first"])
    point(page, "#firings .row")
    server.job("PUT", "second", {"delay": 0, "handler": "works"})
    page.wait_for(lambda: note_of_new_rows(page, "#firings") == "1 new")
    assert page.texts("#firings .key")[:1] == ["first"]
    point(page, "h1")
    page.wait_for(lambda: page.texts("#firings .key")[:1] == ["second"])
    page.click("#hold", "Hold")
    server.job("PUT", "third", {"delay": 0, "handler": "works"})
    page.wait_for(lambda: note_of_new_rows(page, "#firings") == "1 new")
    assert page.texts("#firings .key")[:1] == ["second"]
    page.click("#hold", "Go on")
    page.wait_for(lambda: page.texts("#firings .key")[:1] == ["third"])
    assert note_of_new_rows(page, "#firings") is None


def test_letters(server, page):
    """
    While the pointer is on the list of dead letters, a new dead letter is only counted.

    If the user removes a dead letter from the list, it disappears at once.
    """

    def die(key: str) -> None:
        with server.live() as live:
            server.job("PUT", key, DEAD)
            live.firing(key, "died")

    for key in ("calm/b", "calm/c"):
        die(key)
    page.open(server)
    page.click("#views [href='#dead']")
    page.wait_for(lambda: page.texts("#letters .key") == ["calm/b", "calm/c"])
    point(page, "#letters .letter")
    die("calm/a")
    page.wait_for(lambda: note_of_new_rows(page, "#letters") == "1 new")
    assert page.texts("#letters .key") == ["calm/b", "calm/c"]
    point(page, "h1")
    page.wait_for(lambda: page.texts("#letters .key") == ["calm/a", "calm/b", "calm/c"])
    page.click("[aria-label='Remove calm/a']", "Remove")
    page.click("[aria-label='Remove calm/a']", "Really remove?")
    page.wait_for(lambda: page.texts("#letters .key") == ["calm/b", "calm/c"])
    for key in ("calm/b", "calm/c"):
        server.job("DELETE", key)
