"""
The history of a job records which token a write used, or that the write was made on the page.
"""

from __future__ import annotations

from tickwheel.service.tokens import digest_of


def test_writes_are_recorded_with_their_token(start, tmp_path):
    """
    Each write with a token is recorded with the name of the token, also in a batch.

    Reads are not recorded.
    """
    names = {"d" * 40: "deploy", "o" * 40: "on call"}
    lines = [f"write {digest_of(token)} # {name}" for token, name in names.items()]
    (tmp_path / "tokens").write_text("\n".join(lines))
    server = start("--tokens", "tokens")
    deploy, call = ({"authorization": f"Bearer {token}"} for token in names)
    far = {"delay": 3600, "target": "log"}
    assert server.job("PUT", "k", far, deploy).status == 201
    assert server.job("GET", "k", headers=call).status == 200
    assert server.job("PATCH", "k", {"delay": 60}, call).status == 200
    batch = {"items": [{"do": "set", "key": "k", **far}, {"do": "cancel", "key": "k"}]}
    assert server.ask("POST", "/v1/jobs:batch", batch, deploy).status == 200
    records = server.job("GET", "k", headers=call, action=":history").json["records"]
    assert [(record["outcome"], record["by"], record["attempt"]) for record in reversed(records)] == [
        ("created", "deploy", 0),
        ("moved", "on call", 0),
        ("replaced", "deploy", 0),
        ("cancelled", "deploy", 0),
    ]


def test_writes_of_a_browser(server):
    """
    If the service has no tokens, writes of browsers are recorded. Other writes are recorded only for recurring jobs.
    """
    browser = {"origin": f"http://{server.host}:{server.port}"}
    for key, rule in (("once", {"delay": 3600}), ("again", {"every": 3600})):
        assert server.job("PUT", key, {**rule, "target": "log"}).status == 201
        assert server.job("PATCH", key, {"delay": 1800}, browser).status == 200
        paused = server.job("POST", key, {"note": "why"}, browser, action=":pause")
        assert paused.json["job"]["pause"]["by"] == "page from 127.0.0.1"
    process = server.ask("GET", "/v1/stats").json["owner"].rpartition(":")[0]
    page = [("paused", "page from 127.0.0.1"), ("moved", "page from 127.0.0.1")]
    for key, acts in (("once", page), ("again", [*page, ("created", process)])):
        records = server.job("GET", key, action=":history").json["records"]
        assert [(record["outcome"], record["by"]) for record in records] == acts
