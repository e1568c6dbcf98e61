"""
Writes the page `api` of the site, with every operation of the service, from its OpenAPI document.

    python scripts/api.py > api.md
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service import Service, ServiceOptions
from tickwheel.service.problems import PROBLEM_TYPES

Schema = Mapping[str, Any]
HEAD = """# HTTP API

Written from the document that the service has at `/openapi.json`.
[The service](service.md) says how to run it, and [durable jobs](durable.md) what the words mean.

* Durations are seconds; instants are RFC 3339 with an offset, or seconds since the epoch; they come back as RFC 3339.
* A name that ends in `_ms` or `_ns` has that unit, also for instants, which count from the epoch then.
* A body is strict JSON; a name that is not known is refused.
* Lengths are in characters, as JSON Schema has them; those of keys, names and notes are bytes of UTF-8.
* `If-Match: "GENERATION"` on a write of one job: only if the job has it. `If-None-Match: *` on PUT: only if it is new.
* Other writes refuse both; an item of a batch has `if_generation`.
* `Idempotency-Key: NAME` on a write: within an hour the same process gives the same request its first answer again.
* A name for that has 1 to 200 visible characters of ASCII, without spaces.
* `Accept: application/msgpack`: any JSON document comes as MessagePack; problems stay JSON.
* With tokens, `Authorization: Bearer TOKEN`: GET needs a read token, everything else and `/debug/` a write token.
* A token for the keys under a prefix gets a 403 for all others, and for what is about all jobs.
* A key in an address is percent-encoded; a slash may be written as it is.
* A colon in it may, too, except before the name of an operation at the end, as in `user%3Ahistory`.
"""


def kind_of(schema: Schema) -> str:
    """
    Return the type of a schema in a few words.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return f"list of {kind_of(items) if isinstance(items, dict) and items else 'values'}"
    return {"date-time": "instant"}.get(schema.get("format", ""), str(schema.get("type", "any value")))


def bounds_of(schema: Schema) -> str:
    """
    Return the limits of a schema, and its default.
    """
    found = [schema, *schema.get("anyOf", ())]
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "maxLength": "characters at most",
        "maxItems": "items at most",
    }
    parts = [f"{word} {each[name]:,}" for name, word in words.items() for each in found if name in each]
    if schema.get("default") is not None:
        parts.append(f"by default `{json.dumps(schema['default'])}`")
    return ", ".join(dict.fromkeys(parts))


def cell(*texts: str) -> str:
    """
    Return *texts* as sentences for one cell of a table.
    """
    sentences = (text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".") for text in texts if text)
    return " ".join(sentences).replace("\n", " ").replace("|", "\\|")


def fields(title: str, rows: Mapping[str, Schema], required: frozenset[str]) -> Iterator[str]:
    """
    Yield the lines of a table of named values.
    """
    if rows:
        yield f"\n| {title} | type | |\n|---|---|---|"
        for name, schema in rows.items():
            need = "Required" if name in required else ""
            yield f"| `{name}` | {kind_of(schema)} | {cell(need, schema.get('description', ''), bounds_of(schema))} |"


def operation(method: str, path: str, found: Schema) -> Iterator[str]:
    """
    Yield the section of one operation.
    """
    yield f"\n### {method.upper()} {path}\n\n{found['summary']}"
    if "description" in found:
        yield f"\n{found['description'].replace(chr(10), ' ')}"
    query = {each["name"]: each["schema"] for each in found["parameters"] if each["in"] == "query"}
    yield from fields("query", query, frozenset())
    if "requestBody" in found:
        content = found["requestBody"]["content"]
        yield f"\nTakes {kind_of(next(iter(content.values()))['schema'])} as {' or '.join(content)}."
    told: dict[str, list[str]] = {}
    for status, answer in found["responses"].items():
        (media, content), *_ = answer["content"].items()
        name = kind_of(content["schema"]) if media == "application/json" else media
        told.setdefault("a [problem](#problems)" if "problem" in media else name, []).append(status)
    yield "\nAnswers " + "; ".join(f"{', '.join(statuses)} with {what}" for what, statuses in told.items()) + "."


def main() -> None:
    """
    Print the page.
    """
    document = Service(AsyncScheduler("memory://"), ServiceOptions()).document
    print(HEAD)
    print("## Operations")
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            print(*operation(method, path, found), sep="\n")
    print("\n## Documents")
    for name, schema in sorted(document["components"]["schemas"].items()):
        described = schema.get("description", "").replace("\n", " ")
        print(f"\n### {name}\n\n{described}")
        print(*fields("field", schema.get("properties", {}), frozenset(schema.get("required", ()))), sep="\n")
    print("\n## Problems\n\n| type | status | what happened | what to do |\n|---|---|---|---|")
    for kind in PROBLEM_TYPES.values():
        print(f"| `{kind.name}` | {int(kind.status)} | {cell(kind.title)} | {cell(kind.remedy)} |")


if __name__ == "__main__":
    main()
