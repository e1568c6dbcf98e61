"""
The log of acts (changes by users and programs) over HTTP.
"""

from __future__ import annotations

import pytest


def test_log(server):
    """
    The log has one entry for each change through the service, with the token or the page as the author.
    """
    for key in ("log/1", "log/2"):
        server.job("PUT", key, {"every": 600, "handler": "fails"})
    server.job("PATCH", "log/1", {"delay": 900})
    answer = server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "log/", "note": "a test"})
    assert answer.json["changed"] == 2
    bulk, moved, *_ = server.ask("GET", "/v1/acts?limit=2").json["acts"]
    assert (bulk["outcome"], bulk["handler"], bulk["error"], bulk["attempt"]) == ("bulk", "cancel", "a test", 0)
    assert (moved["outcome"], moved["key"], moved["by"]) == ("moved", "log/1", bulk["by"])
    assert moved["was_due_at"] < moved["due_at"]
    assert server.ask("GET", "/v1/acts?since=0&until=1").json["acts"] == []


@pytest.mark.parametrize("query", ["since=x", "until=x", "limit=0", "limit=1001", "key=a"])
def test_bad_query(server, query):
    """
    If a query field is invalid, the error names it.
    """
    answer = server.ask("GET", f"/v1/acts?{query}")
    assert (answer.status, query.partition("=")[0] in str(answer.json)) == (422, True)
