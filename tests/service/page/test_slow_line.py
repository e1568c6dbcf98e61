"""
The page on a slow connection, and in a time zone that differs from the zone of its jobs.
"""

from __future__ import annotations

import pytest

LATENCY_MS, BYTES_A_S = 400, 50_000
FIRST_MS = 3_000
REQUESTS_MAX = 6  # the page, its style, its modules, its icon (the browser may ask for it twice), and the jobs
JOBS = 60

# Records the time of the first row, and the files that were loaded by then.
NOTE_FIRST = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("#jobs .row")) return;
  observer.disconnect();
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const loaded = all.filter(({ responseEnd }) => responseEnd > 0 && responseEnd <= performance.now());
  window.first = {
    ms: performance.now(),
    names: loaded.map(({ name }) => new URL(name).pathname),
    bytes: loaded.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
  };
}).observe(document, { childList: true, subtree: true });
"""


@pytest.fixture
def slow_line(page):
    """
    Give the browser a connection with 400 ms latency and 400 kbit/s, and an empty cache.
    """
    command = page.browser.execute_cdp_cmd
    added = command("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_FIRST})
    command("Network.enable", {})
    command("Network.setCacheDisabled", {"cacheDisabled": True})
    speed = {"downloadThroughput": BYTES_A_S, "uploadThroughput": BYTES_A_S}
    command("Network.emulateNetworkConditions", {"offline": False, "latency": LATENCY_MS, **speed})
    yield
    whole = {"downloadThroughput": -1, "uploadThroughput": -1}
    command("Network.emulateNetworkConditions", {"offline": False, "latency": 0, **whole})
    command("Network.setCacheDisabled", {"cacheDisabled": False})
    command("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.mark.usefixtures("slow_line")
def test_first_rows(server, page):
    """
    The first rows of the list appear after at most three round trips and three seconds.
    """
    items = [{"do": "set", "key": f"slow/{n}", "delay": 3600, "target": "log"} for n in range(JOBS)]
    server.ask("POST", "/v1/jobs:batch", {"items": items})
    page.browser.get(f"http://{server.host}:{server.port}/")
    first = page.wait_for(lambda: page.run("return window.first ?? null"))
    assert {"/", "/static/main.js", "/static/page.css", "/v1/jobs"} <= set(first["names"])
    assert len(first["names"]) <= REQUESTS_MAX, first["names"]
    assert 3 * LATENCY_MS + 1000 * first["bytes"] / BYTES_A_S < FIRST_MS, first
    assert first["ms"] < 10 * FIRST_MS
    server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "slow/"})


def test_zones_are_named(server, page):
    """
    The page names the time zone of the times that it shows.

    If a job recurs in another zone, its times are shown in that zone, too.
    """
    page.browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    try:
        server.job("PUT", "daily", {"cron": "30 4 * * *", "tz": "America/New_York", "target": "log"})
        page.open(server)
        assert page.find(".zone").text == "Times in Asia/Tokyo"
        page.open_job("daily")
        assert page.find("dd.times").text == "in Asia/Tokyo, but those of its zone"
        theirs = page.find("dd.its-zone").text
        assert theirs.startswith("America/New_York: ")
        assert theirs.count("04:30:00") == 5
        assert "04:30:00" not in page.find("dd.due").text
        server.job("PUT", "daily", {"every": 86_400, "target": "log"})
        page.browser.refresh()
        page.wait_for(lambda: page.texts("dd.times") == ["in Asia/Tokyo"])
        assert page.texts("dd.its-zone") == []
    finally:
        page.browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
        server.job("DELETE", "daily")


def test_the_width_of_a_cell_is_stated(server, page):
    """
    Each strip (a row of cells) says which length of time a cell covers, for example 15 minutes.
    """
    page.open(server)
    page.wait_for(lambda: len(page.texts(".strip .name")) == 3)
    assert page.texts(".strip .name") == [
        "next minute, by 1 s",
        "next hour, by 1 min",
        "next day, by 15 min",
    ]
