"""
The history of what tokens of a service do.
"""

from __future__ import annotations

from tickwheel.service.tokens import digest_of


def test_with_whose_token(start, tmp_path):
    """
    Each write with a token is kept with the token's name, also in a batch; what is only read is not.
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
