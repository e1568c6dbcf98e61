"""
Answers are compressed for clients that read gzip; bodies of requests are not read so.
"""

from __future__ import annotations

import gzip
import json
import re

import pytest

from tickwheel.service.pages import STATIC

FAR = {"delay": 3600, "target": "log"}


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip", True),
        ("deflate, GZIP ; q=0.5", True),
        ("br;q=1,gzip;q=0.001", True),
        ("identity", False),
        ("", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("gzipped", False),
    ],
)
def test_documents(server, accepted, is_compressed):
    """
    A list of some length is compressed if the client says that it reads gzip, and is the same document.
    """
    for number in range(20):
        server.job("PUT", f"zip/{number}", FAR)
    plain = server.ask("GET", "/v1/jobs?prefix=zip/")
    answer = server.ask("GET", "/v1/jobs?prefix=zip/", headers={"accept-encoding": accepted})
    assert (answer.headers.get("content-encoding") == "gzip") is is_compressed
    body = gzip.decompress(answer.body) if is_compressed else answer.body
    assert json.loads(body) == plain.json
    assert "content-encoding" not in plain.headers
    assert (len(answer.body) < len(plain.body) / 4) is is_compressed


def test_bounds(server):
    """
    A small answer is not worth it, and a large one would hold up the event loop.
    """
    server.job("PUT", "zip small", FAR)
    server.job("PUT", "zip large", FAR | {"payload": "x" * 300_000})
    for key in ("zip small", "zip large"):
        answer = server.job("GET", key, headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in answer.headers
        assert answer.json["key"] == key


def test_the_page(server):
    """
    The page and its files are compressed, an unchanged one is answered with 304, and all modules load at once.
    """
    page = server.ask("GET", "/", headers={"accept-encoding": "gzip"})
    modules = {path.name for path in STATIC.glob("*.js")}
    assert set(re.findall(r"<static/([a-z]+\.js)>;rel=modulepreload", page.headers["link"])) == modules
    assert len(page.headers["link"]) < 2_500  # proxies take headers of 4 kB
    sent = 0
    for name in (*modules, "page.css"):
        answer = server.ask("GET", f"/static/{name}", headers={"accept-encoding": "gzip"})
        whole = (STATIC / name).read_bytes()
        is_compressed = answer.headers.get("content-encoding") == "gzip"
        assert (gzip.decompress(answer.body) if is_compressed else answer.body) == whole
        assert is_compressed or len(whole) < 500
        assert "accept-encoding" in answer.headers["vary"].lower()
        sent += len(answer.body)
        again = server.ask("GET", f"/static/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    assert sent < 80_000


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "br", "gzip, gzip"])
def test_compressed_requests(server, coding):
    """
    A compressed body is refused by the name of its coding, and nothing is set.
    """
    body = gzip.compress(json.dumps(FAR).encode())
    for method, path in (("PUT", "/v1/jobs/zipped"), ("POST", "/v1/jobs:batch"), ("POST", "/v1/jobs:bulk")):
        headers = {"content-type": "application/json", "content-encoding": coding}
        answer = server.ask(method, path, headers=headers, raw=body)
        assert (answer.status, answer.json["type"]) == (415, "/problems/unsupported_media_type")
        assert f"Content-Encoding is '{coding}': send the body as it is" in answer.json["detail"]
    headers = {"content-type": "application/json", "content-encoding": "identity"}
    assert server.ask("PUT", "/v1/jobs/zipped", FAR, headers).status == 201
    server.job("DELETE", "zipped")
