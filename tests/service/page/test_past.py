"""
A job's past, on the page.
"""

from __future__ import annotations

TRACE = f"{'4b':0>32}"
TRACED = {"trace": f"00-{TRACE}-{'9c':0>16}-01"}


def test_history(server, page):
    """
    A job's view shows its past: each attempt, with its error, its traceback and trace, and those of former lives.
    """
    page.open(server)
    for lives in (1, 2, 3):
        server.job("PUT", "eventful", {"delay": 0, "handler": "fails", "retry": {"attempts": 2, "base_s": 0}} | TRACED)
        page.wait_for(lambda: len(server.job("GET", "eventful", action=":history").json["records"]) == 2 * lives)  # noqa: B023  it is called at once
    page.find("#search select").send_keys("dead")
    page.open_job("eventful")
    assert page.texts("#detail .past h3") == ["History: 6 events"]
    assert f"trace {TRACE}" in page.texts("#detail .past li")[0]
    assert page.texts("#detail .past .outcome") == ["died", "failed", "died", "failed", "died"]
    assert "raise RuntimeError(message)" in page.texts("#detail .past pre")[0]
    page.click("#detail .past button", "Show 1 earlier")
    page.wait_for(lambda: len(page.texts("#detail .past li")) == 6)
    server.job("DELETE", "eventful")


def test_a_result(server, page):
    """
    What a handler noted last is under the run of which it is the result.
    """
    page.open(server)
    server.job("PUT", "report", {"every": 1, "handler": "notes", "payload": "1,204 rows"})
    page.wait_for(lambda: server.job("GET", "report", action=":history").json["records"][0]["note"] == "1,204 rows")
    page.open_job("report")
    page.wait_for(lambda: "1,204 rows" in page.texts("#detail .past .note"))
    server.job("DELETE", "report")
