"""
The questions of an operator at 3 a.m. The page must answer each question within two clicks.

Two nodes fire the jobs of one PostgreSQL. One node is killed, then the store refuses writes, then the store stops.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tickwheel.jobs.minutes import BUCKETS, MINUTE_MS, LaneMinute, Minute
from tickwheel.scheduler import Scheduler
from tickwheel.stores import make_store

pytestmark = pytest.mark.slow

CLICKS_MAX = 2
LEASE_S = 6
HANDLERS = {"PYTHONPATH": str(Path(__file__).parents[1])}
WEBHOOK = "hook=webhook:?allow=127.0.0.1&failures_max=1"
MINUTES = 55
SLOW_MINUTES = 8
OTHER = "host-b:7:before"
"""The name of a node that has fired jobs within the last hour."""

HOUR = """
return [...document.querySelectorAll("#hour table")].map((table) =>
    [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
"""


class Operator:
    """
    A user who opens the page again for each question, and the clicks until the question is answered.
    """

    def __init__(self, page, server):
        self.page = page
        self.server = server
        self.clicks = {}
        self.question = ""

    def ask(self, question):
        self.question = question
        self.clicks[question] = 0
        self.page.browser.get("about:blank")
        self.page.browser.get(f"http://{self.server.host}:{self.server.port}/")
        self.page.wait_for(lambda: self.page.find("#link").text not in {"", "connecting"})

    def click(self, selector, text=None):
        self.clicks[self.question] += 1
        self.page.click(selector, text)

    def reads(self, selector, pattern):
        """
        Wait until a visible element that matches *selector* has a text that matches *pattern*.

        Return the match.
        """

        def found():
            shown = [each.text for each in self.page.browser.find_elements("css selector", selector)]
            return next((match for text in shown if (match := re.search(pattern, text))), None)

        return self.page.wait_for(found)

    def is_calm(self):
        return self.page.find("#link").text == "live" and not self.page.find("#trouble").is_displayed()


@pytest.fixture
def postgres_server(make_postgres):
    """
    Return a server that only this test uses, so that the test may stop it.
    """
    return make_postgres()


@pytest.fixture
def store(postgres_server):
    """
    Return the URL of a store that contains figures of the last hour.
    """
    url = f"{postgres_server.url('postgres')}&shards=4&lease_s={LEASE_S}"
    kept = make_store(url)
    scheduler = Scheduler(kept)
    scheduler.get("k")  # opens the store
    first = kept.now_ms() // MINUTE_MS * MINUTE_MS - MINUTES * MINUTE_MS
    rows = []
    for n in range(MINUTES):
        is_slow = n >= MINUTES - SLOW_MINUTES
        rows += [
            Minute("host-a:1:now", first + n * MINUTE_MS, MINUTE_MS, 100, 400.0, 9.0, (lane("handler:mail", 2),)),
            Minute(
                OTHER,
                first + n * MINUTE_MS,
                MINUTE_MS,
                100,
                30_000.0 if is_slow else 400.0,
                900.0 if is_slow else 9.0,
                (lane("handler:mail", 2), lane("handler:report", BUCKETS - 1 if is_slow else 3)),
            ),
        ]
    kept.keep_minutes(rows)
    scheduler.stop()
    return url


def lane(name, bucket):
    """
    Return the figures of a handler or queue that has started 50 jobs.

    The lateness of all of them is counted in *bucket*.
    """
    lateness = [0] * BUCKETS
    lateness[bucket] = 50
    return LaneMinute(name, 50, lateness=tuple(lateness), late_max_ms=float(4 << bucket) - 1)


@pytest.fixture
def nodes(store, start):
    """
    Return two nodes that own shards.

    Some of their jobs are waiting, some have failed, and some are paused.
    """
    both = [start("--store", store, "--handlers", "service_handlers", "--target", WEBHOOK, environment=HANDLERS)]
    both.append(start("--store", store, "--handlers", "service_handlers", "--target", WEBHOOK, environment=HANDLERS))
    first = both[0]
    items = [
        {"do": "set", "key": f"orphan/{n:02}", "delay": 0, "target": "pull", "handler": "orphans"} for n in range(9)
    ]
    items += [
        {"do": "set", "key": "dies/1", "delay": 0, "handler": "fails", "retry": {"attempts": 1}},
        {
            "do": "set",
            "key": "dies/2",
            "delay": 0,
            "handler": "repeats",
            "payload": "no paper",
            "retry": {"attempts": 1},
        },
        {"do": "set", "key": "posted", "delay": 0, "target": "hook", "handler": "http://127.0.0.1:9/in"},
        {"do": "set", "key": "daily", "every": 86_400, "handler": "works"},
        {"do": "set", "key": "noted", "every": 86_400, "handler": "notes"},
    ]
    results = first.ask("POST", "/v1/jobs:batch", {"items": items}).json["results"]
    assert {result["status"] for result in results} == {201}
    assert first.job("PATCH", "daily", {"delay": 7200}).status == 200
    first.ask("POST", "/v1/scopes:pause", {"scope": "handler:notes", "note": "no ink"})
    return both


def test_twelve_questions(nodes, page, postgres_server, until):
    """
    Each question about jobs, nodes and the store is answered within two clicks.
    """
    first, second = nodes
    operator = Operator(page, first)
    until(lambda: [len(node["shards"]) for node in _fleet(first)["nodes"]] == [2, 2])
    until(lambda: first.ask("GET", "/v1/stats").json["dead"] == 2)
    ask_about_the_past(operator)
    ask_about_jobs(operator)
    lose_a_node(operator, second)
    lock_the_store(operator, postgres_server)
    stop_the_store(operator, postgres_server)
    assert len(operator.clicks) >= 12
    assert {question: clicks for question, clicks in operator.clicks.items() if clicks > CLICKS_MAX} == {}


def ask_about_the_past(operator):
    operator.ask("how late were jobs in the last hour?")
    open_hour(operator)
    operator.reads(".hour-late", r"half within .* ms, 99 of 100 within 8\.2 s, most 8\.2 s")
    operator.ask("on which node were they late?")
    open_hour(operator)
    operator.reads(".hour-late", f"The latest was on {OTHER}")
    by_node, by_lane, by_time = operator.page.run(HOUR)
    assert {row[0]: row[6] for row in by_node}["host-a:1:now"] == "15.0 ms"
    assert {row[0]: row[6] for row in by_node}[OTHER] == "8.2 s"
    operator.ask("of which handler were they?")
    open_hour(operator)
    operator.reads(".hour-late", "of handler report")
    assert {row[0]: row[6] for row in by_lane}["handler:report"] == "8.2 s"
    operator.ask("is the store slow, and since when?")
    open_hour(operator)
    operator.reads(".hour-store", r"slow since \d\d:\d\d:00 |it was slow for 8 min, last at \d\d:\d\d:00 ")
    assert len(by_time) >= MINUTES // 5
    operator.ask("what changed in the last ten minutes, and by whom?")
    operator.click("#views a", "Fleet")
    operator.click("#log summary")
    operator.reads("#log li", r"^\d\d:\d\d:\d\d moved daily from .* to .*; by ")
    operator.reads("#log li", r"paused handler:notes.* by http")


def ask_about_jobs(operator):
    operator.ask("does anything fire now?")
    operator.reads("#link", "^live$")
    assert not operator.page.find("#trouble").is_displayed()
    operator.ask("what is paused, since when, by whom and why?")
    operator.reads("#scopes li", r"handler:notes is paused since \d\d:\d\d:\d\d, by http: no ink")
    operator.ask("which queue has no worker?")
    operator.click("#views a", "Handlers and queues")
    operator.reads("#lane-table .stuck", r"pull orphans 9 .*no worker pulls orphans")
    operator.ask("which receiver is down?")
    operator.click("#views a", "Handlers and queues")
    operator.reads("#lane-table tr", r"hook http://127\.0\.0\.1:9.*receiver open: ")
    operator.ask("why has this job not run yet?")
    operator.page.find("#search input").send_keys("orphan/03")
    operator.click("#jobs .key", "orphan/03")
    operator.reads("#detail dd.waits", r"no worker.*Remedy: start workers")
    operator.ask("what died, and of which errors?")
    operator.click("#dead-count")
    operator.reads("#incidents .incident", "no paper")
    operator.reads("#incidents .incident", "alert")


def lose_a_node(operator, node):
    lost = _fleet(node)["owner"]
    node.process.send_signal(signal.SIGKILL)
    operator.ask("which node is lost, and who has its work?")
    operator.click("#views a", "Fleet")
    operator.reads("#lanes .gone", re.escape(lost))
    operator.page.wait_for(lambda: operator.page.texts(".lane.this .cells li") == ["0", "1", "2", "3"])
    operator.ask("when was it lost?")
    operator.click("#views a", "Fleet")
    operator.click("#log summary")
    operator.reads("#log li", rf"^\d\d:\d\d:\d\d node died {re.escape(lost)}")


def lock_the_store(operator, server):
    _let_write(server, is_allowed=False)
    try:
        operator.ask("does the store take writes, and since when not?")
        operator.reads("#trouble", r"^The store takes no writes, since \d\d:\d\d:\d\d: ")
        operator.reads("#link", "^nothing fires$")
        operator.click("#trouble summary")
        operator.reads("#trouble li", "default_transaction_read_only")
    finally:
        _let_write(server, is_allowed=True)
    operator.page.wait_for(operator.is_calm)


def stop_the_store(operator, server):
    server.stop()
    try:
        operator.ask("does the store answer, and since when not?")
        operator.reads("#trouble", r"^The store does not answer, since \d\d:\d\d:\d\d: ")
        operator.reads("#link", "^store unreachable$")
        operator.click("#trouble summary")
        operator.reads("#trouble li", "read its log")
    finally:
        server.start()
    operator.page.wait_for(operator.is_calm)


def _fleet(server):
    return server.ask("GET", "/v1/fleet").json


def open_hour(operator):
    operator.click("#views a", "Fleet")
    operator.click("#hour summary")


def _let_write(server, *, is_allowed):
    """
    Allow or forbid writes to the database for new connections.

    All existing connections are closed.
    """
    setting = "off" if is_allowed else "on"
    server.execute(f"ALTER DATABASE postgres SET default_transaction_read_only = {setting}", "template1")
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'", "template1")
