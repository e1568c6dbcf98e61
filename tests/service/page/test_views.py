"""
The views of dead letters, schedules, the fleet and the wheel.

All views are also opened with a read token.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from urllib.parse import quote

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tickwheel.cli.output import printable

# Returns the element with the focus, whether the browser shows a focus ring, and the outline style.
OUTLINE = """
const node = document.activeElement;
return [node.tagName, node.matches(":focus-visible"), getComputedStyle(node).outlineStyle];
"""
DEAD = {"delay": 0, "handler": "fails", "retry": {"attempts": 1}}


@pytest.fixture
def letters(server):
    """
    Return the keys of three dead letters.
    """
    keys = [f"letter/{n}" for n in range(3)]
    with server.live() as live:
        for key in keys:
            server.job("PUT", key, DEAD)
        left = set(keys)
        while left:
            name, data = live.event()
            if name == "firings":
                left -= {firing["key"] for firing in data["firings"] if firing["outcome"] == "died"}
    yield keys
    for key in keys:
        while server.job("DELETE", key).status != HTTPStatus.NOT_FOUND:  # a replayed job may be running
            time.sleep(0.02)


def open_view(page, server, name: str) -> None:
    page.open(server)
    page.click(f"#views [href='#{name}']")
    page.wait_for(lambda: page.find(f"[data-view={name}]").is_displayed())


def test_replay_from_the_letters(server, page, letters):
    """
    The page shows the number of dead letters and their errors. A replayed job that fails is a dead letter again.
    """
    open_view(page, server, "dead")
    page.wait_for(lambda: set(letters) <= set(page.texts("#letters .key")))
    page.wait_for(lambda: "dead)" in page.browser.title)
    assert "RuntimeError" in page.texts("#letters .error")[0]
    generation = server.job("GET", letters[0]).json["generation"]
    page.click(f"[aria-label='Replay {letters[0]}']")
    page.wait_for(lambda: f"Replaying {letters[0]}" in "".join(page.texts(".toast")))
    page.wait_for(lambda: server.job("GET", letters[0]).json["generation"] > generation)


def test_remove_from_the_letters(server, page, letters):
    """
    A dead letter can be removed after a confirmation, and then leaves the list.
    """
    open_view(page, server, "dead")
    remove = f"[aria-label='Remove {letters[1]}']"
    page.click(remove, "Remove")
    assert server.job("GET", letters[1]).status == 200
    page.click(remove, "Really remove?")
    page.wait_for(lambda: server.job("GET", letters[1]).status == 404)
    page.wait_for(lambda: letters[1] not in page.texts("#letters .key"))


def test_replay_all(server, page, letters):
    """
    After a confirmation all dead letters are replayed.
    """
    before = {key: server.job("GET", key).json["generation"] for key in letters}
    open_view(page, server, "dead")
    page.wait_for(lambda: set(letters) <= set(page.texts("#letters .key")))
    page.click("#dead-tools button", "Replay all")
    page.click("#dead-tools button", "Really replay them?")
    page.wait_for(lambda: all(server.job("GET", key).json["generation"] > before[key] for key in letters))


def test_a_late_answer(server, page, letters):
    """
    If a dead letter is removed, an older answer that arrives late does not bring it back.
    """
    page.open(server)
    page.hold("/v1/jobs?state=dead")
    page.run("location.hash = '#dead'")
    page.wait_until_held()
    server.job("DELETE", letters[1])
    page.wait_for(lambda: set(page.texts("#letters .key")) == {letters[0], letters[2]})
    page.let_go()
    assert letters[1] not in page.texts("#letters .key")


def test_schedules(server, page):
    """
    Recurring jobs are listed with their rule and next runs. They can be found by prefix, and opened.
    """
    server.job("PUT", "sched/cron", {"cron": "0 4 * * *", "tz": "Europe/Berlin", "target": "log"})
    server.job("PUT", "sched/every", {"every": 7200, "target": "log"})
    server.job("PUT", "once", {"delay": 3600, "target": "log"})
    open_view(page, server, "schedules")
    page.wait_for(lambda: page.texts("#schedules .key") == ["sched/cron", "sched/every"])
    assert page.texts("#schedules .rule") == ["0 4 * * * in Europe/Berlin", "every 2 h"]
    assert all(text.count("·") == 2 for text in page.texts("#schedules .runs"))
    page.find("#schedules-search input").send_keys("sched/e")
    page.wait_for(lambda: page.texts("#schedules .key") == ["sched/every"])
    page.click("#schedules .row")
    page.wait_for(lambda: page.find("#detail-title").text == "sched/every")
    assert "Next runs" in page.find("#detail dl").text
    for key in ("sched/cron", "sched/every", "once"):
        server.job("DELETE", key)


def test_fleet_of_one(server, page):
    """
    The fleet view shows the shard of a SQLite file, its owner, and the speed of the store's commits.
    """
    open_view(page, server, "fleet")
    page.wait_for(lambda: page.texts("#lanes .cells li") == ["0"])
    owner = server.ask("GET", "/v1/shards").json["owner"]
    assert owner in page.texts("#lanes .who b")
    assert page.texts("#lanes .state") == ["this process, well"]
    assert "held by a lock of the system" in page.find("#owner").text
    assert "sqlite:///" in page.find("#commits").text


def test_the_wheel_turns(server, page):
    """
    A job that is due soon is shown in a slot of the wheel, and the hands of the wheel move.
    """
    server.job("PUT", "soon", {"delay": 50, "handler": "works"})
    open_view(page, server, "wheel")
    page.wait_for(lambda: page.run("return document.querySelectorAll('#rings path.h1').length"))
    hands = "return [...document.querySelectorAll('.ring-hand')].map((hand) => hand.getAttribute('transform')).join()"
    before = page.run(hands)
    page.wait_for(lambda: page.run(hands) != before)
    assert page.find("#rings svg").get_attribute("aria-label").startswith("The wheel: ")
    server.job("DELETE", "soon")


def test_a_far_job_is_in_an_outer_ring(server, page):
    """
    A job that is due next year is shown in an outer ring of the wheel, in a slot that shows a span of time.
    """
    server.job("PUT", "far/away", {"delay": 400 * 86_400, "target": "log"})
    open_view(page, server, "wheel")
    page.wait_for(lambda: "in the store" in (page.find("#rings svg").get_attribute("aria-label") or ""))
    full = page.wait_for(lambda: page.run("return document.querySelector('#rings path.h1[data-level=\\'7\\']')"))
    ActionChains(page.browser).move_to_element(full).perform()
    page.wait_for(lambda: page.find("#slot").text.startswith("1 job from "))
    link = page.run("return [...document.querySelectorAll('#levels a')].at(-1).href")
    full.click()
    page.wait_for(lambda: "far/away" in page.texts("#jobs .key"))
    page.run("location.hash = '#overview?prefix=nobody'")
    page.wait_for(lambda: page.texts("#jobs .key") == [])
    page.run("location.hash = arguments[0]", link.partition("#")[2])
    page.wait_for(lambda: page.texts("#jobs .key") == ["far/away"])
    server.job("DELETE", "far/away")


def test_each_view_has_an_address(server, page):
    """
    Each view has an address, which works with the browser's Back button. Only one view is visible at a time.
    """
    page.browser.get(f"http://{server.host}:{server.port}/#fleet")
    page.wait_for(lambda: page.find("[data-view=fleet]").is_displayed())
    assert page.texts("#views [aria-current]") == ["Fleet"]
    page.find("#views [href='#wheel']").send_keys(Keys.ENTER)
    page.wait_for(lambda: page.find("[data-view=wheel]").is_displayed())
    assert not page.find("[data-view=fleet]").is_displayed()
    assert page.browser.title.endswith("Wheel · tickwheel")
    page.browser.back()
    page.wait_for(lambda: page.find("[data-view=fleet]").is_displayed())


@pytest.mark.parametrize("name", ["toString", "constructor", "nothing"])
def test_an_address_without_a_view(server, page, name):
    """
    If an address names no view, the page shows the overview.
    """
    page.browser.get("about:blank")
    page.browser.get(f"http://{server.host}:{server.port}/#{name}")
    page.wait_for(lambda: page.find("#link").text == "live")
    assert page.find("[data-view=overview]").is_displayed()


def test_no_outline_around_the_page(server, page):
    """
    If the address of a view moves the focus to the page's content, no outline is drawn around it.
    """
    page.browser.get(f"http://{server.host}:{server.port}/#fleet")
    page.wait_for(lambda: page.find("[data-view=fleet]").is_displayed())
    assert page.run(OUTLINE)[1:] == [False, "none"]
    ActionChains(page.browser).send_keys(Keys.TAB).perform()
    page.run("location.hash = '#wheel'")
    page.wait_for(lambda: page.find("[data-view=wheel]").is_displayed())
    assert page.run(OUTLINE) == ["MAIN", True, "none"]


def test_each_job_has_an_address(server, page):
    """
    Each job on the page has its own URL, whatever its key. Closing the job restores the URL of the list.
    """
    key = "tea/50 %?state=dead#\u202egnp.exe"
    shown = printable(key)
    server.job("PUT", key, {"delay": 3600, "target": "log"})
    link = f"http://{server.host}:{server.port}/#job/{quote(key, safe='')}"
    page.browser.get(link)
    page.wait_for(lambda: page.texts("#detail-title") == [shown])
    assert page.find("[data-view=overview]").is_displayed()
    page.wait_for(lambda: page.browser.title == f"{shown} · tickwheel")
    assert page.browser.current_url == link
    page.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.wait_for(lambda: page.run("return location.hash") == "#overview")
    page.wait_for(lambda: page.browser.title == "tickwheel")
    page.wait_for(lambda: shown in page.texts("#jobs .key"))
    page.click("#jobs .key", shown)
    page.wait_for(lambda: page.texts("#detail-title") == [shown])
    page.browser.back()
    page.wait_for(lambda: not page.run("return document.getElementById('detail').open"))
    page.browser.forward()
    page.wait_for(lambda: page.texts("#detail-title") == [shown])
    page.browser.back()
    server.job("DELETE", key)


def test_filters_are_in_the_address(server, page):
    """
    The address of the page keeps the search.
    """
    for key in ("links/a", "links/b", "other"):
        server.job("PUT", key, {"delay": 3600, "target": "log"})
        server.job("POST", key, {}, action=":pause")
    server.job("PUT", "links/c", {"delay": 3600, "every": 60, "target": "log"})
    page.open(server)
    page.find("#search select").send_keys("paused")
    page.find("#search input").send_keys("links/")
    page.wait_for(lambda: page.texts("#jobs .key") == ["links/a", "links/b"])
    address = page.browser.current_url
    assert address.endswith("#overview?prefix=links%2F&state=paused")
    page.click("#views a", "Schedules")
    page.find("#schedules-search input").send_keys("links/c")
    page.wait_for(lambda: page.texts("#schedules .key") == ["links/c"])
    assert page.browser.current_url.endswith("#schedules?prefix=links%2Fc")
    page.browser.back()
    page.wait_for(lambda: page.texts("#jobs .key") == ["links/a", "links/b"])
    page.browser.get("about:blank")
    page.browser.get(address)
    page.wait_for(lambda: page.texts("#jobs .key") == ["links/a", "links/b"])
    assert page.find("#search input").get_property("value") == "links/"
    page.browser.get(address.replace("paused", "nonsense"))
    page.wait_for(lambda: page.find("#search select").get_property("value") == "pending")
    for key in ("links/a", "links/b", "links/c", "other"):
        server.job("DELETE", key)


def test_with_a_read_token(start, page):
    """
    With a read token every view can be opened.

    The controls that write are not shown.
    """
    tokens = {"TICKWHEEL_WRITE_TOKEN": "w" * 40, "TICKWHEEL_READ_TOKEN": "r" * 40}
    server = start(environment=tokens)
    server.job("PUT", "seen", {"delay": 3600, "target": "log"}, {"authorization": "Bearer " + "w" * 40})
    page.browser.get(f"http://{server.host}:{server.port}/")
    page.wait_for(lambda: page.run("return document.getElementById('sign-in').open"))
    page.find("#sign-in input").send_keys("r" * 40, Keys.ENTER)
    page.wait_for(lambda: page.texts("#jobs .key") == ["seen"])
    page.wait_for(lambda: page.run("return document.body.classList.contains('read-only')"))
    page.open_job("seen")
    is_shown = (
        "return document.querySelector(arguments[0]).checkVisibility()"  # in one script, as the view may be redrawn
    )
    page.wait_for(lambda: page.run(is_shown, "#detail dl"))
    assert not page.run(is_shown, "#detail .writes")
