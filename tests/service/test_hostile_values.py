"""
Hostile values in every field and header of every operation in the OpenAPI document.

Each value is accepted, or refused with a problem document. There is no 5xx, no traceback, and no growth of memory.
"""

from __future__ import annotations

import http.client
import json
from functools import partial
from urllib.parse import quote

import pytest

DEEP = "[" * 100_000 + "]" * 100_000
LONG = json.dumps("x" * 10_000_000)
TEXTS = [
    "' OR 1=1; DROP TABLE jobs; --",
    '"; SELECT pg_sleep(10); --',
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "${jndi:ldap://127.0.0.1/x}",
    "{{7*7}}",
    "../../../../etc/passwd",
    "a\0b",
    "\u202e\u0007\x1b[2J",
    "x" * 3000,
    "",
]
RAW = [
    *("NaN", "Infinity", "1e400", "-1e400", "1e308", "-1", "0", "true", "null", "[]", "{}", "9223372036854775808"),
    *('"\\ud800"', '{"a":1,"a":2}', '"1970-01-01T00:00:00+99:99"', '"9999-12-31T23:59:59-23:59"', DEEP),
    *map(json.dumps, TEXTS),
]
ENDLESS = {"/v1/live", "/debug/profile"}


class Asker:
    """
    A persistent connection that records the statuses of its answers.
    """

    def __init__(self, server) -> None:
        self._server = server
        self._connection: http.client.HTTPConnection | None = None
        self.statuses: dict[int, int] = {}

    def ask(self, what: str, method: str, path: str, body: bytes | None = None, headers=None) -> None:
        """
        Send a request, and check that the answer is not a 5xx, and that an error is a short problem document.
        """
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._server.host, self._server.port, timeout=60)
        kind = {} if body is None else {"content-type": "application/json"}
        self._connection.request(method, path, body, kind | (headers or {}))
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.will_close:
            self._connection.close()
            self._connection = None
        assert answer.status < 500, (what, answer.status, data[:500])
        if answer.status >= 400 and answer.headers["content-type"] != "text/plain; charset=utf-8":
            problem = json.loads(data)
            assert (answer.headers["content-type"], problem["status"]) == ("application/problem+json", answer.status), (
                what
            )
            assert len(data) < 5000, (what, len(data))
            assert "Traceback" not in problem["detail"], what
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def with_value(body: dict, field: str, raw: str) -> bytes:
    """
    Return *body* as JSON, with the JSON text *raw* as the value of *field*.
    """
    rest = json.dumps({name: value for name, value in body.items() if name != field})[1:-1]
    return f"{{{rest}{', ' if rest else ''}{json.dumps(field)}: {raw}}}".encode()


def operations(document):
    """
    Yield the name, method, address and description of every operation except streams.
    """
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path not in ENDLESS:
                yield operation["operationId"], method.upper(), path.replace("{key}", "hostile"), operation


def fields_of(document, name: str) -> list[str]:
    """
    Return the names of the fields in the schema *name*.
    """
    return [field for field in document["components"]["schemas"][name]["properties"] if field != "do"]


def all_bodies(document, bodies):
    """
    For each field of each request body and batch item, yield the name, method and address of a request, and a function.

    The function returns the body with a given value in the field.
    """
    examples = {}
    for name, method, path, operation in operations(document):
        if name in bodies:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            examples[schema] = bodies[name]
            for field in fields_of(document, schema):
                yield f"{name} {field}", method, path, partial(with_value, bodies[name], field)
    for schema in document["components"]["schemas"]:
        if schema.endswith("Item"):
            fields, kind = fields_of(document, schema), schema.removesuffix("Item")
            usual = {name: value for name, value in examples.get(f"{kind}Body", {}).items() if name in fields}
            item = {"do": kind.lower(), **usual, "key": "hostile"}
            for field in fields:
                yield f"batch {schema} {field}", "POST", "/v1/jobs:batch", partial(batch_with, item, field)


def batch_with(item: dict, field: str, raw: str) -> bytes:
    """
    Return a batch of the single *item*, with the JSON text *raw* as the value of *field*.
    """
    return b'{"items":[%b]}' % with_value(item, field, raw)


def memory_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:  # noqa: PTH123 a file of /proc
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    except FileNotFoundError:
        pytest.skip("this system has no /proc to read a process's memory from")


@pytest.fixture
def asker(server):
    asker = Asker(server)
    yield asker
    asker.close()
    assert server.ask("GET", "/healthz").status == 200


def test_every_field_of_every_body(asker, document, bodies):
    """
    No value in a field of a body causes a 5xx.

    The values are NaN, 1e400, surrogates, NUL, deep nesting, repeated names, SQL and HTML.
    """
    for what, method, path, made in all_bodies(document, bodies):
        for raw in RAW:
            asker.ask(f"{what} = {raw[:60]}", method, path, made(raw))
    assert sum(asker.statuses.values()) > 1000
    assert {200, 201, 400, 409, 422} <= set(asker.statuses)


def test_every_query_field_and_header(asker, document, bodies):
    """
    No hostile value in a query field, in a header or in a key causes a 5xx.
    """
    for name, method, path, operation in operations(document):
        body = json.dumps(bodies[name]).encode() if name in bodies else None
        for parameter in operation["parameters"]:
            for text in (*TEXTS, "nan", "1e400", "-1", "\ud800"):
                value = quote(text, safe="", errors="surrogatepass")
                what = f"{name} {parameter['name']} = {text[:60]!r}"
                if parameter["in"] == "query":
                    asker.ask(what, method, f"{path}?{parameter['name']}={value}", body)
                elif parameter["in"] == "header" and text.isprintable() and text.isascii():
                    asker.ask(what, method, path, body, {parameter["name"]: text})
                elif parameter["in"] == "path":
                    asker.ask(what, method, path.replace("hostile", value), body)
    assert {200, 400, 404, 422} <= set(asker.statuses)


def test_ten_megabytes_in_every_field(asker, document, bodies, server):
    """
    Ten megabytes in any field are refused with a 413 or 422, and the memory is freed afterwards.
    """
    fields = list(all_bodies(document, bodies))
    half, sizes = len(fields) // 2, []
    for part in (fields[:half], fields[half:]):
        for what, method, path, made in part:
            asker.ask(f"{what} = 10 MB", method, path, made(LONG))
        sizes.append(memory_kib(server.process.pid))
    assert set(asker.statuses) <= {400, 413, 422, 200}  # a batch with one refused item gets a 200
    assert sizes[1] - sizes[0] < 40_000
