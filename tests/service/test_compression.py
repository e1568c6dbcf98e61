"""
Answers are compressed if the client accepts gzip.

Requests with a compressed body are refused.
"""

from __future__ import annotations

import gzip
import json

import pytest

from tickwheel.service.bundle import bundle
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
    A list that is long enough is compressed if the client accepts gzip.

    It decompresses to the same document.
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


def test_answers_that_are_not_compressed(server):
    """
    Small answers are not compressed, and neither are answers so large that compressing them would block the event loop.
    """
    server.job("PUT", "zip small", FAR)
    server.job("PUT", "zip large", FAR | {"payload": "x" * 300_000})
    for key in ("zip small", "zip large"):
        answer = server.job("GET", key, headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in answer.headers
        assert answer.json["key"] == key


def test_the_page(server):
    """
    The page and its files are compressed, and all JavaScript modules are sent as one file.

    A request for an unchanged file is answered with a 304.
    """
    page = server.ask("GET", "/", headers={"accept-encoding": "gzip"})
    assert page.headers["link"] == "<static/main.js>;rel=modulepreload"
    joined = bundle(STATIC)
    sent = len(page.body)
    for name in (*joined, "page.css", "dom.js", "traces.js"):
        answer = server.ask("GET", f"/static/{name}", headers={"accept-encoding": "gzip"})
        whole = joined.get(name) or (STATIC / name).read_bytes()
        is_compressed = answer.headers.get("content-encoding") == "gzip"
        assert (gzip.decompress(answer.body) if is_compressed else answer.body) == whole
        assert is_compressed or len(whole) < 500
        assert "accept-encoding" in answer.headers["vary"].lower()
        assert answer.headers["content-type"].startswith("text/")
        assert answer.headers["content-security-policy"]
        sent += len(answer.body) if name in joined or name == "page.css" else 0
        again = server.ask("GET", f"/static/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    assert sent < 70_000


SOURCES = {
    "main.js": 'import {a, b} from "./one.js"\n\n// why\nb(a)\nconst later = () => import("./far.js")\n',
    "one.js": "export const a = 1\n\nexport async function b(n) {\n\treturn n // one\n}\n",
    "far.js": 'import {a} from "./one.js"\nimport {c} from "./own.js"\nexport class D {}\n',
    "own.js": "export const c = `//`\n",
}
JOINED = """export const $ = {}
$.one ??= (() => {
const a = 1
async function b(n) {
return n // one
}
return {a, b}
})()
$.main ??= (() => {
const {a, b} = $.one
b(a)
const later = () => import("./far.js")
return {}
})()"""
FAR_ONE = """import {$} from "./main.js"
$.own ??= (() => {
const c = `//`
return {c}
})()
const {a} = $.one
const {c} = $.own
class D {}
export {D}"""


def test_modules_are_joined(tmp_path):
    """
    In the joined file, each JavaScript module comes after the modules that it imports.

    A module that is imported at run time stays a separate file.
    """
    for name, source in SOURCES.items():
        (tmp_path / name).write_text(source)
    assert {name: text.decode() for name, text in bundle(tmp_path).items()} == {"main.js": JOINED, "far.js": FAR_ONE}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('import * as one from "./one.js"', "no such line can be joined: import \\* as one"),
        ('import {a as b} from "./one.js"', "no such line can be joined"),
        ("export let a = 1", "no such line can be joined: export let a"),
        ("export default 1", "no such line can be joined"),
        ('import "./main.js"', "modules import each other: main.js, main.js"),
    ],
)
def test_imports_that_cannot_be_joined(tmp_path, source, said):
    """
    A form of import or export that cannot be joined raises an error.

    Modules that import each other also raise an error.
    """
    (tmp_path / "main.js").write_text(source)
    (tmp_path / "one.js").write_text("export const a = 1")
    with pytest.raises(ValueError, match=said):
        bundle(tmp_path)


def test_no_text_spans_lines():
    """
    No string literal of a JavaScript module contains a line break, so indentation and comments can be removed safely.
    """
    for path in STATIC.glob("*.js"):
        for line in path.read_text("utf-8").splitlines():
            assert line.count("`") % 2 == 0, (path.name, line)
            assert not line.strip().startswith(("/*", "*/")), (path.name, line)


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "br", "gzip, gzip"])
def test_compressed_requests(server, coding):
    """
    A compressed request body is refused, and nothing is set.

    The error names the content coding.
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
