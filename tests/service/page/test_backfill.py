"""
Backfills on the page.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from selenium.webdriver.common.keys import Keys

FOCUS = "return document.activeElement.textContent"


def test_a_backfill(server, page):
    """
    The first press of the backfill button counts the runs in a range. The second press sets a job for each run.

    If the range changes, the runs are counted again.
    """
    job = server.job("PUT", "past/again", {"every": 600, "target": "log"}).json["job"]
    due_at = datetime.fromisoformat(job["due_at"]).astimezone()
    page.browser.get(f"http://{server.host}:{server.port}/#job/past%2Fagain")
    page.wait_for(lambda: page.texts("#detail-title") == ["past/again"])
    page.click("#detail summary", "Run the past again")
    for name, at in (("since", due_at - timedelta(hours=1)), ("until", due_at - timedelta(minutes=10))):
        page.fill(f".backfill [name={name}]", f"{at:%Y-%m-%dT%H:%M:%S}")
    page.click(".backfill button", "Count the runs")
    page.click(".backfill button", "Run 5 runs again")
    page.wait_for(lambda: "Set 5 runs of past/again" in "".join(page.texts(".toast")))
    page.wait_for(lambda: page.texts(".backfill button") == ["Count the runs"])
    jobs = server.ask("GET", "/v1/jobs?prefix=past/again@").json["jobs"]
    assert 0 < len(jobs) <= 5  # one a second runs meanwhile
    page.click(".backfill button", "Count the runs")
    page.wait_for(lambda: page.texts(".backfill button") == ["Run 5 runs again"])
    page.find(".backfill [name=rate]").send_keys(Keys.ARROW_UP)
    page.wait_for(lambda: page.texts(".backfill button") == ["Count the runs"])
    for job in server.ask("GET", "/v1/jobs?prefix=past/").json["jobs"]:
        server.job("DELETE", job["key"])


def test_with_the_keyboard(server, page):
    """
    A backfill can be done with the keyboard. While the page counts the runs, the button keeps the focus.
    """
    job = server.job("PUT", "past/again", {"every": 600, "target": "log"}).json["job"]
    due_at = datetime.fromisoformat(job["due_at"]).astimezone()
    page.browser.get(f"http://{server.host}:{server.port}/#job/past%2Fagain")
    page.click("#detail summary", "Run the past again")
    for name, at in (("since", due_at - timedelta(hours=1)), ("until", due_at - timedelta(minutes=10))):
        page.fill(f".backfill [name={name}]", f"{at:%Y-%m-%dT%H:%M:%S}")
    page.hold(":backfill")
    button = page.find(".backfill button")
    button.send_keys(Keys.ENTER)
    page.wait_until_held()
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.run(FOCUS) == "Count the runs"
    assert button.get_attribute("aria-disabled") == "true"
    page.let_go()
    page.wait_for(lambda: page.run(FOCUS) == "Run 5 runs again")
    assert button.get_attribute("aria-disabled") is None
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    page.wait_for(lambda: "Set 5 runs of past/again" in "".join(page.texts(".toast")))
    assert len(page.texts(".toast")) == 2
    for job in server.ask("GET", "/v1/jobs?prefix=past/").json["jobs"]:
        server.job("DELETE", job["key"])


def test_invalid_ranges(server, page):
    """
    A backfill of a future range is refused, and the page says which range is allowed.
    """
    server.job("PUT", "past/again", {"every": 600, "target": "log"})
    server.job("PUT", "past/once", {"delay": 3600, "target": "log"})
    page.browser.get(f"http://{server.host}:{server.port}/#job/past%2Fagain")
    page.click("#detail summary", "Run the past again")
    page.fill(".backfill [name=since]", "2040-01-01T00:00")
    page.fill(".backfill [name=until]", "2040-01-02T00:00")
    page.click(".backfill button", "Count the runs")
    page.wait_for(lambda: "name a range of the past" in "".join(page.texts(".toast")))
    page.browser.get(f"http://{server.host}:{server.port}/#job/past%2Fonce")
    page.wait_for(lambda: page.texts("#detail-title") == ["past/once"])
    assert page.browser.find_elements("css selector", ".backfill") == []
    for key in ("past/again", "past/once"):
        server.job("DELETE", key)
