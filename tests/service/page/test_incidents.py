"""
Dead letters grouped into incidents on the page: search, trial replays, and replays at a rate.
"""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest
from selenium.webdriver.common.keys import Keys

DEAD = {"delay": 0, "handler": "fails", "retry": {"attempts": 1}}
PADDINGS = "return [...document.querySelectorAll('.incident .acts button')].map((b) => getComputedStyle(b).padding)"


@pytest.fixture
def letters(server):
    """
    Return the keys of five dead letters, the latest first.
    """
    keys = [f"incident/{n}" for n in range(5)]
    with server.live() as live:
        for key in keys:
            server.job("PUT", key, DEAD)
            live.firing(key, "died")
    yield keys[::-1]
    for key in keys:
        server.job("DELETE", key)


def open_dead(page, server) -> None:
    """
    Open the view of dead letters.
    """
    page.open(server)
    page.click("#views [href='#dead']")
    page.wait_for(lambda: page.texts(".incident .error"))


def test_a_trial_replay_of_three_letters(server, page, letters):
    """
    An incident shows its error, the code that raised it, and its number of dead letters.

    If the user replays three of them on trial, the page shows the outcome.
    """
    open_dead(page, server)
    (error,) = page.texts(".incident .error")
    assert "RuntimeError" in error
    assert page.texts(".incident .about")[0].startswith("5 letters · handler fails · ")
    assert page.texts(".incident .about")[0].endswith(" · raised in service_handlers.register.<locals>.fails+3")
    assert page.texts(".incident .key") == letters
    assert page.find(".incident svg").get_attribute("aria-label") == "5 in the last 24 hours"
    assert len(set(page.run(PADDINGS))) == 1  # all buttons have the same padding
    before = {key: server.job("GET", key).json["generation"] for key in letters}
    page.click(".incident .try", "Try 3")
    page.wait_for(lambda: page.texts(".incident .tried") == ["Of the last replay: 3 died again"])
    after = {key: server.job("GET", key).json["generation"] for key in letters}
    assert [key for key in letters if after[key] > before[key]] == letters[:3]
    page.click(".incident .key", letters[0])
    page.wait_for(lambda: page.find("#detail-title").text == letters[0])


def test_replay_all_at_a_rate(server, page, letters):
    """
    After a confirmation, all dead letters of an incident are replayed one after another at the chosen rate.
    """
    open_dead(page, server)
    page.find(".incident select").send_keys("1 a second")
    page.click(".incident .all", "Replay all 5")
    page.click(".incident .all", "Really replay them?")
    page.wait_for(lambda: "Replaying 5 letters, 1 a second" in "".join(page.texts(".toast")))
    dues = [datetime.fromisoformat(server.job("GET", key).json["due_at"]) for key in letters]
    assert [due for due, before in pairwise(dues[::-1]) if (due - before).total_seconds() < 0.99] == []


def test_search(server, page, letters):
    """
    A search finds dead letters by key, error, target and handler. The address of the page keeps the search.
    """
    open_dead(page, server)
    page.find("#incidents-search input").send_keys("INCIDENT/3")
    page.wait_for(lambda: page.texts(".incident .key") == [letters[1]])
    assert page.run("return location.hash") == "#dead?search=INCIDENT%2F3"
    page.browser.refresh()
    page.wait_for(lambda: page.texts(".incident .key") == [letters[1]])
    page.find("#incidents-search input").send_keys("4")
    page.wait_for(lambda: page.find("#incidents-empty").text == "No dead letter has that.")


def test_different_errors(server, page):
    """
    An incident shows the number of different errors among its dead letters, and the text of each error.
    """
    keys = [f"different/{number}" for number in (1, 2, 3)]
    with server.live() as live:
        for key in keys:
            server.job("PUT", key, DEAD | {"handler": "repeats", "payload": f"no order {key[-1]}"})
            live.firing(key, "died")
    open_dead(page, server)
    page.wait_for(lambda: page.texts(".incident .about")[0].startswith("3 letters of 3 different errors · "))
    assert page.texts(".incident .all") == ["Replay all 3 · 3 errors"]
    assert not page.find(".incident pre").is_displayed()
    page.find(".incident summary").send_keys(Keys.ENTER)
    page.wait_for(lambda: page.find(".incident pre").is_displayed())
    assert "no order 3" in page.find(".incident pre").text
    for key in keys:
        server.job("DELETE", key)
