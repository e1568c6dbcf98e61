"""
A user sees, searches, moves, cancels, runs and replays jobs on the page, and undoes changes.
"""

from __future__ import annotations

import json

import pytest
from selenium.webdriver.common.keys import Keys

FAR = {"delay": 3600, "target": "log"}


def test_a_job_is_shown_and_fires(server, page):
    """
    A job that was set over HTTP appears with a countdown.

    After it has fired, the job leaves the list, and its lateness is shown.
    """
    page.open(server)
    server.job("PUT", "shown", {"delay": 2, "handler": "works"})
    page.wait_for(lambda: "shown" in page.texts("#jobs .key"))
    page.wait_for(lambda: "shown" in page.texts("#firings .key"))
    page.wait_for(lambda: "shown" not in page.texts("#jobs .key"))
    row = page.texts("#firings .key").index("shown")
    page.wait_for(lambda: page.texts("#firings .outcome")[row] == "succeeded")
    assert page.texts("#firings .late")[row].startswith("+")
    page.wait_for(lambda: page.find("#lateness svg").get_attribute("aria-label").startswith("Lateness of "))


def test_cancel_and_undo(server, page):
    """
    A cancel asks for confirmation and then removes the job. Undo restores it with its payload.
    """
    payload = {"big": 12345678901234567890, "exact": 1.0}
    body = {"at": "2050-01-01T00:00:00.5Z", "payload": payload, "expires": 60, "target": "log"}
    before = server.job("PUT", "undone", body).json["job"]
    page.open(server)
    page.open_job("undone")
    assert "12345678901234567890" in page.find("#detail pre").text
    page.click("#detail .danger", "Cancel job")
    assert server.job("GET", "undone").status == 200
    page.click("#detail .danger", "Really cancel?")
    page.wait_for(lambda: server.job("GET", "undone").status == 404)
    page.wait_for(lambda: "undone" not in page.texts("#jobs .key"))
    page.click(".toast button", "Undo")
    page.wait_for(lambda: server.job("GET", "undone").status == 200)
    after = server.job("GET", "undone").json
    changing = {"generation", "first_set_at"}
    assert {name: after[name] for name in after.keys() - changing} == {
        name: before[name] for name in before.keys() - changing
    }
    server.job("DELETE", "undone")


@pytest.mark.parametrize(
    "rule",
    [
        {"cron": "30 4 * * MON", "tz": "Europe/Berlin", "misfire": "skip", "misfire_grace": 300, "overlap": "once"},
        {"cron": "30 4 * * MON", "tz": "Europe/Berlin", "exclude": ["2050-12-24/2051-01-02", "* * * * SUN"]},
        {"every": 7000, "at": 1_000_000_000, "until": 4_133_980_800, "max_runs": 9},
    ],
)
@pytest.mark.parametrize("is_moved", [False, True])
def test_undo_of_a_recurring_job(server, page, rule, is_moved):
    """
    If the cancel of a recurring job is undone, the job has its old rule, phase and next run.
    """
    before = server.job("PUT", "rule", rule | {"jitter": 90, "target": "log"}).json["job"]
    if "every" in rule:  # its start is in the past, so it runs at once, and later in the phase of its start
        page.wait_for(lambda: server.job("GET", "rule").json["recurrence"].get("runs") == 1)
        before = server.job("GET", "rule").json
    if is_moved:
        before = server.job("PATCH", "rule", {"delay": 100_000}).json["job"]
    page.open(server)
    page.open_job("rule")
    assert ("30 4 * * MON in Europe/Berlin" if "cron" in rule else "every 1 h 56 min") in page.find("#detail dl").text
    assert ("misfire" in rule) == ("missed runs: skip if later than 5 min" in page.find("#detail dl").text)
    page.click("#detail .danger", "Cancel job")
    page.click("#detail .danger", "Really cancel?")
    page.click(".toast button", "Undo")
    page.wait_for(lambda: server.job("GET", "rule").json.get("due_at") == before["due_at"])
    after = server.job("GET", "rule").json["recurrence"]
    was = before["recurrence"]
    if "max_runs" in was:  # undo begins a new series with the remaining number of runs
        was["max_runs"] -= was.pop("runs")
        del was["succeeded_at"]
    assert after.keys() == was.keys()
    for name, value in after.items():
        if name == "anchor_at":
            assert (value - was[name]) % was["every_ms"] == 0
        else:
            assert value == was[name]
    server.job("DELETE", "rule")


def test_progress_and_stop(server, page, tmp_path):
    """
    While a job runs, its dialog shows its current progress.

    The user can stop the job after a confirmation.
    """
    go_on = tmp_path / "go on"
    server.job("PUT", "long", {"delay": 0, "handler": "steps", "payload": str(go_on)})
    page.open(server)
    page.click("#firings .key", "long")
    page.wait_for(lambda: "25 %: page 1" in page.find("#detail .progress").text)
    go_on.touch()
    page.wait_for(lambda: "50 %: page 2" in page.find("#detail .progress").text)
    assert any("running 50 %" in text for text in page.texts("#firings .outcome"))
    page.click("#detail .danger", "Stop")
    page.click("#detail .danger", "Really stop?")
    page.wait_for(lambda: server.job("GET", "long").status == 404)
    page.wait_for(lambda: "stopped" in "".join(page.texts("#firings .outcome")))


def test_stop_all_found_jobs(server, page, tmp_path):
    """
    The first press of the button counts the running jobs that a search has found. The second press stops them.
    """
    for number in range(3):
        server.job("PUT", f"long/{number}", {"delay": 0, "handler": "steps", "payload": str(tmp_path / "go on")})
    page.open(server)
    page.find("#search [name=prefix]").send_keys("long/")
    page.find("#search [name=state]").send_keys("running")
    page.wait_for(lambda: page.texts("#jobs .key") == ["long/0", "long/1", "long/2"])
    page.click("#bulk summary")
    assert page.texts("#bulk option") == ["Stop"]
    page.click("#bulk button", "Count them")
    page.click("#bulk button", "Stop 3 jobs")
    page.wait_for(lambda: "Stopping 3 jobs" in "".join(page.texts(".toast")))
    for number in range(3):
        page.wait_for(lambda key=f"long/{number}": server.job("GET", key).status == 404)


def test_move(server, page):
    """
    The user can move a job so that it is due after a given delay from now.

    Undo restores the old due time.
    """
    before = server.job("PUT", "moved", FAR).json["job"]
    page.open(server)
    page.open_job("moved")
    amount = page.find("#detail [name=amount]")
    amount.clear()
    amount.send_keys("2")
    page.find("#detail [name=unit]").send_keys("d")
    page.click("#detail .move button")
    moved = page.wait_for(lambda: (job := server.job("GET", "moved").json)["generation"] > before["generation"] and job)
    assert moved["due_at"] > before["due_at"]
    page.click(".toast button", "Undo")
    page.wait_for(lambda: server.job("GET", "moved").json["due_at"] == before["due_at"])
    server.job("DELETE", "moved")


def test_pause(server, page):
    """
    A paused job is shown with the reason of its pause in three places, each with a button to resume it.
    """
    server.job("PUT", "pausing", FAR)
    page.open(server)
    page.open_job("pausing")
    page.find("#detail [name=note]").send_keys("the tap drips")
    page.click("#detail .pause button")
    page.wait_for(lambda: server.job("GET", "pausing").json["pause"])
    page.wait_for(lambda: "paused" in page.texts("#jobs .when"))
    search = page.find("#search input")
    search.clear()
    page.find("#search [name=state]").send_keys("paused")
    page.wait_for(lambda: page.texts("#jobs .key") == ["pausing"])
    page.open_job("pausing")
    assert "the tap drips" in page.find("#detail dl").text
    page.click("#detail .primary", "Resume")
    page.wait_for(lambda: server.job("GET", "pausing").json["pause"] is None)
    server.job("DELETE", "pausing")


def test_scopes(server, page):
    """
    A paused scope (a group of jobs that are paused together) is shown at the top of the page, and can be resumed.
    """
    page.open(server)
    server.ask("POST", "/v1/scopes:pause", {"scope": "log", "note": "the disk is full"})
    server.job("PUT", "scoped", {"delay": 0, "target": "log"})
    page.wait_for(lambda: any("1 due job waiting" in text for text in page.texts("#scopes span")))
    (text,) = page.texts("#scopes span")
    assert text.startswith("log is paused since ")
    assert "the disk is full" in text
    page.click("#scopes button", "Resume")
    page.wait_for(lambda: not page.texts("#scopes li"))
    page.wait_for(lambda: "scoped" in page.texts("#firings .key"))


def test_a_job_that_has_changed_is_left_alone(server, page):
    """
    If a job was changed after the page has read it, the page refuses to change it.
    """
    server.job("PUT", "changed", FAR)
    page.open(server)
    page.open_job("changed")
    newer = server.job("PUT", "changed", FAR | {"payload": "new"}).json["job"]
    page.click("#detail .danger", "Cancel job")
    page.click("#detail .danger", "Really cancel?")
    page.wait_for(lambda: any("read the job again" in text for text in page.texts(".toast")))
    assert server.job("GET", "changed").json == newer
    server.job("DELETE", "changed")


def test_run_now(server, page):
    """
    A job that is due much later runs at once, after a confirmation.
    """
    server.job("PUT", "run/now", {"delay": 3600, "handler": "works"})
    page.open(server)
    page.open_job("run/now")
    page.click("#detail .primary", "Run now")
    page.click("#detail .primary", "Really run now?")
    page.wait_for(lambda: "run/now" in page.texts("#firings .key"))
    page.wait_for(lambda: server.job("GET", "run/now").status == 404)


def test_replay(server, page):
    """
    A dead job is counted, and listed with its error.

    It can be replayed.
    """
    page.open(server)
    server.job("PUT", "broken", {"delay": 0, "handler": "fails", "retry": {"attempts": 1}})
    page.wait_for(lambda: "broken" in page.texts("#firings .key"))
    page.find("#search select").send_keys("dead")
    page.open_job("broken")
    assert "RuntimeError" in page.find("#detail dd.error").text
    generation = server.job("GET", "broken").json["generation"]
    page.click("#detail .primary", "Replay")
    page.wait_for(lambda: server.job("GET", "broken").json["generation"] > generation)
    page.wait_for(lambda: server.job("GET", "broken").json["state"] == "dead")
    server.job("DELETE", "broken")


def test_search_among_very_many(server, page):
    """
    If there are too many jobs for one search, the page shows how far it has searched, and the user can continue.
    """
    items = [FAR | {"do": "set", "key": f"many/{number:05}"} for number in range(10_000)]
    server.ask("POST", "/v1/jobs:batch", {"items": [*items, FAR | {"do": "set", "key": "z rare"}][1:]})
    server.job("PUT", "many/00000", FAR)
    try:
        page.open(server)
        page.run("performance.now = ((n) => () => (n += 2000))(0)")  # a search has time for one page of jobs only
        page.run("location.hash = '#overview?contains=rare'")
        page.wait_for(lambda: page.find("#jobs-empty").text == "None so far: searched up to “many/09999”.")
        assert page.find("#more").text == "Look further"
        page.run(
            "performance.now = () => 0; document.getElementById('more').click()"
        )  # in one script, because the list may be refreshed in between
        page.wait_for(lambda: page.texts("#jobs .key") == ["z rare"])
        assert not page.find("#jobs-empty").is_displayed()
    finally:
        server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "contains": "r", "prefix": "z"})
        server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "many/"})


def test_search(server, page):
    """
    Only jobs whose keys begin with the typed text are listed.

    If no job matches, the list says so.
    """
    for key in ("find/a", "find/b", "other/a"):
        server.job("PUT", key, FAR)
    page.open(server)
    page.find("#search input").send_keys("find/")
    page.wait_for(lambda: page.texts("#jobs .key") == ["find/a", "find/b"])
    page.find("#search input").send_keys("c")
    page.wait_for(lambda: page.find("#jobs-empty").text == "No pending job matches.")
    for key in ("find/a", "find/b", "other/a"):
        server.job("DELETE", key)


def test_strips_count_and_list(server, page):
    """
    The strips (rows of cells, one for each period) show how many jobs are due in each period.

    A press on a cell lists its jobs.
    """
    for n in range(12):
        server.job("PUT", f"herd/{n:02}", {"delay": 3000 + n, "target": "log"})
    page.open(server)
    page.wait_for(lambda: page.find(".strip:nth-child(2) svg"))
    hour = page.find(".strip:nth-child(2) svg")
    page.wait_for(lambda: "12 jobs" in (hour.get_attribute("aria-label") or ""))
    cells = page.run("return [...arguments[0].children].map((cell) => cell.getAttribute('class'))", hour)
    filled = [index for index, name in enumerate(cells) if "h0" not in name]
    page.run("arguments[0].focus()", hour)
    hour.send_keys(Keys.HOME, *[Keys.ARROW_RIGHT] * filled[0], Keys.ENTER)
    page.wait_for(
        lambda: page.texts("#jobs .key") and set(page.texts("#jobs .key")) <= {f"herd/{n:02}" for n in range(12)}
    )
    page.click("#filter button", "Show all")
    for n in range(12):
        server.job("DELETE", f"herd/{n:02}")


def test_due_range(server, page):
    """
    A range of due times restricts the list and its bulk changes, and is part of the page's address.
    """
    for year in (2061, 2062, 2063):
        server.job("PUT", f"range/{year}", {"at": f"{year}-06-01T00:00:00Z", "target": "log"})
    page.open(server)
    page.run("document.getElementById('narrow').open = true")
    page.fill("#search [name=from]", "2062-01-01T00:00:00")
    page.wait_for(lambda: page.texts("#jobs .key") == ["range/2062", "range/2063"])
    assert "from 1 Jan 2062" in page.find("#filter").text or "from Jan 1, 2062" in page.find("#filter").text
    page.fill("#search [name=until]", "2063-01-01T00:00:00")
    page.wait_for(lambda: page.texts("#jobs .key") == ["range/2062"])
    page.run("document.getElementById('bulk').open = true")
    page.fill(".bulk [name=verb]", "move")
    page.click(".bulk button", "Count them")
    page.click(".bulk button", "Move 1 job")
    page.wait_for(lambda: server.job("GET", "range/2062").json["due_at"] == "2062-06-01T01:00:00Z")
    page.browser.refresh()
    page.wait_for(lambda: page.texts("#jobs .key") == ["range/2062"])
    assert page.run("return document.querySelector('#search [name=until]').value") == "2063-01-01T00:00"
    page.fill("#search [name=until]", "2061-01-01T00:00:00")
    assert (
        page.run("return document.querySelector('#search [name=until]').validationMessage")
        == "It ends before it begins."
    )
    page.fill("#search [name=from]", "")
    page.fill("#search [name=until]", "2062-01-01T00:00:00")
    page.fill("#search [name=prefix]", "range/")
    page.wait_for(lambda: page.texts("#jobs .key") == ["range/2061"])
    page.click("#filter button", "Show all")
    page.wait_for(lambda: len(page.texts("#jobs .key")) == 3)
    for year in (2061, 2062, 2063):
        server.job("DELETE", f"range/{year}")


def test_keyboard(server, page):
    """
    Enter opens a job and Escape closes it.

    The focus then returns to the job's row.
    """
    server.job("PUT", "keys", FAR)
    page.open(server)
    page.wait_for(lambda: "keys" in page.texts("#jobs .key"))
    row = page.find("#jobs .row")
    row.send_keys(Keys.ENTER)
    page.wait_for(lambda: page.run("return document.getElementById('detail').open"))
    page.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.wait_for(lambda: not page.run("return document.getElementById('detail').open"))
    assert page.browser.switch_to.active_element == row
    server.job("DELETE", "keys")


def test_one_job_after_the_other(server, page):
    """
    If a job is opened at the moment when another job is closed, the opened job stays open.
    """
    for key in ("first", "second"):
        server.job("PUT", key, FAR)
    page.open(server)
    page.wait_for(lambda: {"first", "second"} <= set(page.texts("#jobs .key")))
    page.open_job("first")
    shown = page.run(REOPEN)
    assert shown == ["second", "second"]
    for key in ("first", "second"):
        server.job("DELETE", key)


def test_survives_a_restart(start, page):
    """
    While the service is unreachable, the page says so.

    Afterwards the page is live again and shows the jobs.
    """
    server = start()
    server.job("PUT", "stays", FAR)
    page.open(server)
    page.wait_for(lambda: "stays" in page.texts("#jobs .key"))
    server.stop()
    page.wait_for(lambda: "unreachable" in page.find("#link").text)
    again = start("--port", str(server.port))
    page.wait_for(lambda: page.find("#link").text == "live")
    again.job("PUT", "new", FAR)
    page.wait_for(lambda: page.texts("#jobs .key") == ["stays", "new"])


def test_sign_in(start, page):
    """
    If the service has tokens, the page asks for a token and works with it.
    """
    server = start(environment={"TICKWHEEL_WRITE_TOKEN": "w" * 40})
    server.job("PUT", "secret", FAR, {"authorization": "Bearer " + "w" * 40})
    page.browser.get(f"http://{server.host}:{server.port}/")
    page.wait_for(lambda: page.run("return document.getElementById('sign-in').open"))
    page.find("#sign-in input").send_keys("w" * 40, Keys.ENTER)
    page.wait_for(lambda: page.texts("#jobs .key") == ["secret"])
    page.open_job("secret")
    page.click("#detail .danger", "Cancel job")
    page.click("#detail .danger", "Really cancel?")
    page.wait_for(lambda: page.texts("#jobs .key") == [])


def test_the_page_loads_nothing_from_other_hosts(server, page):
    """
    The page loads nothing from other hosts.

    Its security policy forbids inline code and other hosts.
    """
    page.open(server)
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => new URL(entry.name).origin)")
    assert set(loaded) == {f"http://{server.host}:{server.port}"}
    policy = server.ask("GET", "/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("width", [1280, 700, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_sideways(server, page, scheme, width):
    """
    Nothing overflows sideways at any width, in light and dark colours.
    """
    server.job("PUT", "a very long key " * 20, FAR)
    browser = page.browser
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.open(server)
        page.wait_for(lambda: page.texts("#jobs .key"))
        assert page.run("return document.documentElement.scrollWidth") <= width
        page.click("#jobs .row")
        page.wait_for(lambda: page.run("return document.getElementById('detail').open"))
        assert page.run("const d = document.getElementById('detail'); return d.scrollWidth <= d.clientWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        server.job("DELETE", "a very long key " * 20)


def test_contrast(server, page):
    """
    The contrast of every text with its background is at least 4.5 to 1, in light and dark colours.
    """
    page.open(server)
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        weak = page.run(CONTRAST)
        assert weak == [], json.dumps(weak)
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgb = (colour) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = (colour) => rgb(colour).slice(0, 3).map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (rgb(colour)[3] === 255) return colour;
  }
};
const weak = [];
for (const node of document.querySelectorAll("main *, header *")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!own || !node.checkVisibility() || node instanceof SVGElement) continue;
  const [a, b] = [light(getComputedStyle(node).color), light(ground(node))].sort();
  const ratio = (b + 0.05) / (a + 0.05);
  if (ratio < 4.5) weak.push([node.className, node.textContent.slice(0, 30), ratio.toFixed(2)]);
}
return weak;
"""

# Closes a job and opens another in the same turn, like a quick answer, and looks before and after the late event.
REOPEN = """
const dialog = document.getElementById("detail");
const title = document.createElement("h2");
title.id = "detail-title";
title.textContent = "second";
dialog.close();
dialog.replaceChildren(title);
dialog.showModal();
const shown = [dialog.textContent];
return new Promise((end) => setTimeout(() => end([...shown, dialog.textContent]), 50));
"""
