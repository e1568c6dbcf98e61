from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

from msgspec.json import schema_components

from tickwheel.service.examples import ANSWERS, BODIES, FIELDS
from tickwheel.service.msgpack import MEDIA_TYPE
from tickwheel.service.problems import PROBLEM_TYPES
from tickwheel.service.routes import Operation
from tickwheel.service.rules import RuleDocument

__all__ = ["openapi"]

_KEY: Final = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "The job's key: 1 to 512 bytes of UTF-8 without NUL, percent-encoded. A slash may be as it is.",
    "example": FIELDS["key"],
    "schema": {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[^\\u0000]+$"},
}
_NAME: Final = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The manifest's name: 1 to 255 bytes of UTF-8 without NUL, percent-encoded.",
    "example": FIELDS["name"],
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\u0000]+$"},
}
_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "description": "Only if the job has this entity tag, which is its generation in quotes.",
    "schema": {"type": "string", "pattern": '^("[0-9]{1,18}"|[0-9]{1,18})$'},
}
_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Only if there is no job of this key. Not together with If-Match.",
    "schema": {"type": "string", "enum": ["*"]},
}
_IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key again brings the first answer again, from any node, for an hour.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
_PROBLEM: Final = {
    "type": "object",
    "description": "What went wrong, after RFC 9457.",
    "required": ["type", "title", "status", "detail", "remedy"],
    "properties": {
        "type": {"type": "string", "description": "An address that explains the kind."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, with the value."},
        "remedy": {"type": "string", "description": "What to do."},
        "value": {"type": "string", "description": "The refused value, shortened."},
        "job": {"$ref": "#/components/schemas/JobDocument", "description": "The job as it is, where it refused."},
        "is_unknown": {"type": "boolean", "description": "True where the write may have taken effect nevertheless."},
    },
}
_MOVE: Final = {"oneOf": [{"required": [name]} for name in ("delay", "at")]}
_SET: Final = {
    "anyOf": [{"required": [name]} for name in ("delay", "at", "every", "cron")],
    "not": {"anyOf": [{"required": ["delay", "at"]}, {"required": ["every", "cron"]}]},
    "if": {"required": ["target"], "properties": {"target": {"type": "string", "const": "log"}}},
    "else": {"required": ["handler"], "properties": {"handler": {"type": "string", "minLength": 1}}},
}
_NOTE: Final = {"properties": {"note": {"type": "string", "pattern": "^[^\\u0000]*$"}}}
_RULE: Final = {
    "oneOf": [
        {"required": ["cron", "tz"]},
        {"required": ["every_ms", "anchor_at"]},
        {"required": ["every", "time", "anchor_on", "tz"]},
    ]
}
_BESIDES: Final = {
    "SetBody": _SET,
    "MoveBody": _MOVE,
    "PauseBody": _NOTE,
    "PauseScopeBody": _NOTE,
    "RuleDocument": _RULE,
}
"""Constraints that types cannot express, such as fields that exclude each other. Items of a batch have none."""


def openapi(operations: Iterable[Operation]) -> dict[str, Any]:
    table = tuple(operations)
    types = [kind for operation in table for kind in (operation.body, operation.answer)]
    named = [*dict.fromkeys(kind for kind in types if inspect.isclass(kind)), RuleDocument]  # this type is in no field
    _, schemas = schema_components(named, ref_template="#/components/schemas/{name}")
    for name, schema in schemas.items():
        if name in _BESIDES:
            schema["allOf"] = [_BESIDES[name]]  # next to the fields, generators would make another body of it
        _make_tuples_plain(schema)
        if name.endswith(("Body", "Item")):
            for of in schema.get("properties", {}).values():
                _make_optional(of)
    tags = {_tag_of(operation): _resource_of(operation) for operation in table}
    paths: dict[str, dict[str, Any]] = {}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tickwheel",
            "version": version("tickwheel"),
            "summary": "Jobs by key that survive a crash, fired to the millisecond.",
            "description": "Every JSON document comes as MessagePack, if `Accept: application/msgpack` asks for it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The service that this document is of."}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _make_tuples_plain(schema: Any) -> None:
    # client generators fail at `items: false`
    if isinstance(schema, list):
        for inner in schema:
            _make_tuples_plain(inner)
    elif isinstance(schema, dict):
        if schema.get("items") is False:
            schema["items"] = {"anyOf": schema["prefixItems"]}
        _make_tuples_plain(list(schema.values()))


def _make_optional(schema: dict[str, Any]) -> None:
    # client generators make a field with a default required, so the description names the default
    default = schema.pop("default", None)
    text = schema.get("description", "")
    if default and "default" not in text.lower():
        said = f"by default `{json.dumps(default)}`"
        schema["description"] = f"{text.removesuffix('.')}; {said}." if text else f"{said[0].upper()}{said[1:]}."


def _operation(operation: Operation) -> dict[str, Any]:
    document = inspect.getdoc(operation.run) or ""
    summary, _, description = document.partition("\n\n")
    found: dict[str, Any] = {
        "operationId": operation.run.__qualname__.replace(".", "_").lower(),
        "tags": [_tag_of(operation)],
        "summary": summary,
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if description:
        found["description"] = description
    if operation.body is not None:
        schema = {"$ref": f"#/components/schemas/{operation.body.__name__}"}
        kinds = ("application/json", *((MEDIA_TYPE,) if operation.takes_msgpack else ()))
        content = {"schema": schema, "example": BODIES[operation.body]}
        found["requestBody"] = {"required": True, "content": dict.fromkeys(kinds, content)}
    if operation.is_open:
        found["security"] = []
    return found


def _tag_of(operation: Operation) -> str:
    return operation.run.__qualname__.partition(".")[0].lower()


def _resource_of(operation: Operation) -> str:
    resource = getattr(operation.run, "__self__", None)
    return (inspect.getdoc(type(resource)) or "").partition("\n")[0]


def _parameters(operation: Operation) -> list[Any]:
    found: list[Any] = [parameter for parameter in (_KEY, _NAME) if f"{{{parameter['name']}}}" in operation.path]
    for name, schema in operation.query.items():
        example = {"example": FIELDS[name]} if name in FIELDS else {}
        found.append({"name": name, "in": "query", "schema": schema, **example})
    if operation.has_conditions:
        found.append(_IF_MATCH)
    if operation.can_create:
        found.append(_IF_NONE_MATCH)
    if operation.method != "GET":
        found.append(_IDEMPOTENCY_KEY)
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    answer = operation.answer
    if isinstance(answer, str):
        content: dict[str, Any] = {kind: {"schema": {"type": "string"}} for kind in answer.split(", ")}
    else:
        schema = {"$ref": f"#/components/schemas/{answer.__name__}"}
        content = {"application/json": {"schema": schema, "example": ANSWERS[answer]}}
    found: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if operation.can_create:
        found["201"] = {"description": "Created.", "content": content}
    for name in operation.problems:
        kind = PROBLEM_TYPES[name]
        status_text = str(kind.status)
        if status_text in found:
            found[status_text]["description"] += f" Or: {kind.title}."
        else:
            problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
            found[status_text] = {"description": f"{kind.title}.", "content": problem}
    return dict(sorted(found.items()))
