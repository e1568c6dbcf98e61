"""
The declared manifests, in one hash of JSON arrays: version, digest, revision and rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tickwheel.jobs.model import Manifest
from tickwheel.stores.redis._connections import Connections

__all__ = ["changes", "keys_of", "manifest_of", "manifests"]

_TEXT: Final = json.JSONEncoder(separators=(",", ":"))


def keys_of(name: str) -> str:
    return f"manifest:{name}"


def manifest_of(name: str, text: bytes) -> Manifest:
    return Manifest(name, *json.loads(text)) if text else Manifest(name)


def changes(kept: Mapping[str, bytes], changed: Mapping[str, Manifest]) -> list[bytes]:
    parts: list[bytes] = []
    for name, before in kept.items():
        manifest = changed.get(name)
        parts += (name.encode(), before, before if manifest is None else _text_of(manifest))
    return parts


def manifests(connections: Connections, base: str, name: str | None) -> list[Manifest]:
    facts: Sequence[bytes]
    if name is None:
        facts = connections.call("HGETALL", f"{base}:manifests")
    else:
        text = connections.call("HGET", f"{base}:manifests", name)
        facts = [] if text is None else [name.encode(), text]
    found = (manifest_of(bytes(each).decode(), text) for each, text in zip(facts[::2], facts[1::2], strict=True))
    return sorted(found, key=lambda manifest: manifest.name)


def _text_of(manifest: Manifest) -> bytes:
    return _TEXT.encode([manifest.version, manifest.digest, manifest.revision, manifest.rules]).encode()
