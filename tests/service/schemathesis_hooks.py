"""
Facts about the API that schemathesis cannot derive from the OpenAPI document.

They are: existing keys and handlers, fields that depend on each other, and new idempotency keys.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import count
from typing import Any

import msgspec
import schemathesis

KEYS = ("a", "b", "c d", "e/f", "\u00e9")
HANDLERS = ("works", "fails")

WAIT_MAX_S = 300
WITH_DUE = {"order", "due_from", "due_until", "limit"}
"""Query fields that are allowed if a list is ordered by due time."""
WITH_LATEST = {"order", "prefix", "state", "limit"}
"""Query fields that are allowed if dead letters are listed with the latest first."""
INSTANT_MAX_S = 4_000_000_000
"""Replacement for instants that are too far ahead, in seconds since the epoch.

It is less than a hundred years ahead."""

VALID = re.compile("[!-~]{1,200}")

_number = count()


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """
    Make every valid idempotency key unique, and shorten every valid time to wait.
    """
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and VALID.fullmatch(key):
        case.headers["Idempotency-Key"] = f"key-{next(_number)}"
    query, body = case.query, case.body
    if case.path == "/debug/profile" and isinstance(query, dict) and _is_long(query.get("seconds", 5)):
        query["seconds"] = 0.01  # the answer does not depend on this value
    if case.path == "/v1/jobs" and isinstance(query, dict):
        _make_listable(query)
    if case.path.endswith(":lease") and isinstance(body, dict) and _is_wait(body.get("wait", WAIT_MAX_S)):
        body["wait"] = 0.01  # no job is set meanwhile, so waiting is useless


def _make_listable(query: dict[str, Any]) -> None:
    """
    Remove the field `order` from *query* if the other fields do not allow it, and limit its instants.
    """
    is_latest = query.get("order") == "latest" and (query.keys() - WITH_LATEST or query.get("state", "dead") != "dead")
    if is_latest or (query.get("order") == "due" and query.keys() - WITH_DUE):
        del query["order"]
    for name in ("due_from", "due_until"):
        if _is_far(query.get(name)):
            query[name] = INSTANT_MAX_S


def _is_far(instant: Any) -> bool:
    if isinstance(instant, str):
        try:
            instant = datetime.fromisoformat(instant).timestamp()
        except ValueError:
            return False
    return type(instant) in (int, float) and instant > INSTANT_MAX_S


def _is_long(seconds: Any) -> bool:
    try:
        return 0 < float(seconds) <= 60
    except (TypeError, ValueError):
        return False


def _is_wait(wait: Any) -> bool:
    return type(wait) in (int, float) and 0 <= wait <= WAIT_MAX_S


@schemathesis.hook
def map_path_parameters(_context: Any, path_parameters: Any) -> Any:
    """
    Replace half of the valid keys by a few fixed keys, so that requests find existing jobs.
    """
    key = (path_parameters or {}).get("key")
    if isinstance(key, str) and len(key) % 2 and 0 < len(key) < 100 and "\0" not in key:
        path_parameters["key"] = KEYS[ord(key[0]) % len(KEYS)]
    return path_parameters


@schemathesis.hook
def map_body(_context: Any, body: Any) -> Any:
    """
    Replace generated handler names by registered ones.
    """
    if isinstance(body, dict) and isinstance(body.get("handler"), str) and body["handler"]:
        body["handler"] = HANDLERS[len(body["handler"]) % 2]
    return body


@schemathesis.serializer("application/msgpack")
def msgpack(_context: Any, value: Any) -> bytes:
    """
    Encode *value* as MessagePack.
    """
    return msgspec.msgpack.encode(_fitting(value))


def _fitting(value: Any) -> Any:
    """
    Return *value* with its integers reduced to 64 bits, the range of MessagePack.
    """
    if isinstance(value, dict):
        return {name: _fitting(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_fitting(inner) for inner in value]
    return max(-(2**63), min(value, 2**64 - 1)) if type(value) is int else value
