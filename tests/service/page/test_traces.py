"""
The page links to traces.
"""

from __future__ import annotations

TRACE = f"{'4b':0>32}"
TRACED = {"trace": f"00-{TRACE}-{'9c':0>16}-01"}
URL = "https://traces.example.com/{trace_id}?again={trace_id}"


def test_links(start, page):
    """
    If the service has the address of a trace viewer, the page links to the traces of a job and of each attempt.
    """
    server = start("--trace-url", URL)
    page.open(server)
    dies = {"target": "webhook", "handler": "http://127.0.0.1:9/", "retry": {"attempts": 1}} | TRACED
    assert server.job("PUT", "dies", {"delay": 0, **dies}).status == 201
    page.wait_for(lambda: server.job("GET", "dies").json["state"] == "dead")
    page.find("#search select").send_keys("dead")
    page.open_job("dies")
    links = page.run("return [...document.querySelectorAll('#detail a')].map((a) => [a.href, a.rel, a.textContent])")
    href = URL.replace("{trace_id}", TRACE)
    assert sorted(links) == [[href, "noopener", TRACED["trace"]], [href, "noopener", TRACE]]
