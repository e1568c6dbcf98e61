"""
The history of a job on the page.
"""

from __future__ import annotations

import re

import pytest

TRACE = f"{'4b':0>32}"
TRACED = {"trace": f"00-{TRACE}-{'9c':0>16}-01"}

BY_A_PROGRAM = "set by a client whose name is not kept"
ACTS = (("Move", ["moved"]), ("Pause", ["paused", "moved"]), ("Resume", ["resumed", "paused", "moved"]))
TRIES = [
    ({"attempts": 4, "base_s": 10, "jitter": 0}, "10 s, then 20 s, then 40 s"),
    ({"attempts": 3, "base_s": 10, "kind": "linear", "jitter": 0.5}, "10 s, then 20 s, or up to 50 % sooner"),
    ({"attempts": 3, "kind": "list", "waits_s": [60, 7200], "jitter": 0}, "1 min, then 2 h"),
    ({"attempts": 1}, None),
]


def test_history(server, page):
    """
    The dialog of a job shows each attempt with its error, traceback and trace, also of earlier generations.
    """
    page.open(server)
    for lives in (1, 2, 3):
        server.job("PUT", "eventful", {"delay": 0, "handler": "fails", "retry": {"attempts": 2, "base_s": 0}} | TRACED)
        page.wait_for(lambda: len(server.job("GET", "eventful", action=":history").json["records"]) == 2 * lives)  # noqa: B023  it is called at once
    page.find("#search select").send_keys("dead")
    page.open_job("eventful")
    assert page.texts("#detail .past h3") == ["History: 7 events"]
    assert f"trace {TRACE}" in page.texts("#detail .past li")[0]
    assert page.texts("#detail .past .outcome") == ["died", "failed", "set", "died", "failed"]
    assert "raise RuntimeError(message)" in page.texts("#detail .past pre")[0]
    page.click("#detail .past button", "Show 2 earlier")
    page.wait_for(lambda: len(page.texts("#detail .past li")) == 7)
    server.job("DELETE", "eventful")


def test_long_history(start, page):
    """
    A history that is longer than one answer of the API can be extended until it is complete.
    """
    server = start("--history-per-key", "1000")
    server.job("PUT", "busy", {"every": "1d", "target": "log"})
    turns = ({"do": "pause", "key": "busy"}, {"do": "resume", "key": "busy"})
    items = [turn for _ in range(110) for turn in turns]
    server.ask("POST", "/v1/jobs:batch", {"items": items})
    page.open(server)
    page.open_job("busy")
    page.click("#detail .past button", "Show 95 earlier")
    for count in (200, 221):
        page.click("#detail .past button", "Show older ones")
        page.wait_for(lambda count=count: len(page.texts("#detail .past li")) == count)
    page.wait_for(lambda: page.texts("#detail .past button") == [])
    assert "created" in page.texts("#detail .past li")[-1]


def test_the_history_of_a_recurring_job(server, page):
    """
    The history of a recurring job shows who set and moved it, and the time, node, lateness and duration of each run.
    """
    page.open(server)
    server.job("PUT", "lives", {"every": 3600, "handler": "works"})
    for delay in (1800, 0):
        assert server.job("PATCH", "lives", {"delay": delay}).status == 200
    history = page.wait_for(lambda: _ended(server.job("GET", "lives", action=":history").json["records"]))
    page.open_job("lives")
    told = page.texts("#detail .past li")
    assert page.texts("#detail .past .outcome") == ["succeeded", "moved", "moved", "created"]
    owner = server.ask("GET", "/v1/fleet").json["owner"]
    assert [text.partition(" by ")[2] for text in told[1:]] == [
        owner.rpartition(":")[0]
    ] * 3  # without tokens the author is the name of the process
    run = re.fullmatch(r"\d\d:\d\d:\d\d succeeded \+([\d.]+) m?s, took ([\d.]+) m?s, on (.+)", told[0])
    assert run is not None, told
    assert run[3] == owner
    assert (float(run[1]), float(run[2])) == pytest.approx((history["lateness_ms"], history["took_ms"]), rel=0.1)
    server.job("DELETE", "lives")


def test_acts_on_a_job_that_fires_once(server, page):
    """
    If a user changes a one-time job on the page, the history shows the change.

    If a program changes such a job, the page shows only the time of the change.
    """
    server.job("PUT", "once", {"delay": 3600, "target": "log"})
    server.job("PATCH", "once", {"delay": 1800})
    page.open(server)
    page.open_job("once")
    assert [text.split(" ", 1)[1] for text in page.texts("#detail .past li")] == [BY_A_PROGRAM]
    for button, outcomes in ACTS:
        page.click("#detail .actions button", button)
        page.wait_for(lambda: not page.texts("#detail .past"))
        page.open_job("once")
        assert page.texts("#detail .past .outcome") == [*outcomes, "set"]
    page.click("#detail .actions button", "Cancel job")
    page.click("#detail .actions button", "Really cancel?")
    page.wait_for(lambda: not page.texts("#detail .past"))
    assert server.job("GET", "once").status == 404
    page.browser.get(f"http://{server.host}:{server.port}/#job/once")
    page.wait_for(lambda: len(page.texts("#detail .past li")) == 4)
    told = [text.split(" ", 1)[1] for text in page.texts("#detail .past li")]
    assert told[:3] == [f"{outcome} by page from 127.0.0.1" for outcome in ("cancelled", "resumed", "paused")]
    assert re.fullmatch(r"moved from .*\d\d:\d\d:\d\d to .*\d\d:\d\d:\d\d, by page from 127.0.0.1", told[3])


def test_next_tries(server, page):
    """
    The dialog of a job shows the delays before the remaining attempts.
    """
    page.open(server)
    for retry, said in TRIES:
        server.job("PUT", "tried", {"delay": 3600, "target": "log", "retry": retry})
        page.open_job("tried")
        assert page.texts("#detail .next-tries") == ([f"if it fails, after {said}"] if said else [])
        page.click("#detail [aria-label=Close]")
        server.job("DELETE", "tried")


def test_skip(server, page):
    """
    The next run of a recurring job can be skipped.

    Undo restores the run.
    """
    server.job("PUT", "skipped", {"cron": "0 4 * * *", "tz": "Europe/Berlin", "target": "log"})
    due_at, next_at = server.ask("GET", "/v1/schedules/skipped?count=2").json["runs"]
    page.open(server)
    page.open_job("skipped")
    page.click("#detail button", "Skip next run")
    page.wait_for(lambda: server.job("GET", "skipped").json["due_at"] == next_at)
    page.wait_for(lambda: "Skipped to " in "".join(page.texts(".toast")))
    page.click(".toast button", "Undo")
    page.wait_for(lambda: server.job("GET", "skipped").json["due_at"] == due_at)
    server.job("DELETE", "skipped")


def _ended(records):
    return next((record for record in records if record["outcome"] == "succeeded"), None)


def test_a_result(server, page):
    """
    The last progress note that a handler reports is shown as the result of the run.
    """
    page.open(server)
    server.job("PUT", "report", {"every": 1, "handler": "notes", "payload": "1,204 rows"})
    page.wait_for(lambda: server.job("GET", "report", action=":history").json["records"][0]["note"] == "1,204 rows")
    page.open_job("report")
    page.wait_for(lambda: "1,204 rows" in page.texts("#detail .past .note"))
    server.job("DELETE", "report")
