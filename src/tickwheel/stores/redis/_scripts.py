"""
The Lua scripts. The server runs one at a time, atomically.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import sha1
from importlib.resources import files
from typing import Final

from tickwheel.stores.redis._blob import CONSTANTS

__all__ = ["SCRIPTS", "Script", "packed", "packed_lists"]

_READING: Final = ("aside", "count", "count_due", "due", "nodes", "page", "read", "running", "scan", "shards")
_FREEING: Final = (
    *("dead", "floor", "lease", "look", "open", "probe", "prune", "record"),
    *("release", "report", "scope", "server", "take_up"),
)
"""Scripts that may run when the server is out of memory: they open a store, fire, or cancel, which frees memory."""

_ARRAY: Final = struct.Struct(">BI")
_ARRAY_TAG: Final = 0xDD
_TEXT_TAG: Final = 0xDB

_SHORT_MAX: Final = 512
_SHORT: Final = [_ARRAY.pack(_TEXT_TAG, size) for size in range(_SHORT_MAX)]
"""MessagePack headers of texts, for the most frequent lengths."""


class Script:
    def __init__(self, file: str, flags: str) -> None:
        folder = files(__package__).joinpath("scripts")
        parts = (folder.joinpath(f"{name}.lua").read_text("utf-8") for name in ("_common", file))
        self.text = "\n".join((f"#!lua {flags}".rstrip(), CONSTANTS, *parts)).encode()
        self.digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()


SCRIPTS: Final = {
    "apply": Script("apply", ""),
    "apply_freeing": Script("apply", "flags=allow-oom"),
    **{name: Script(name, "flags=allow-oom") for name in _FREEING},
    **{name: Script(name, "flags=no-writes") for name in _READING},
}
"""The scripts, keyed by name."""


def packed(items: Iterable[bytes]) -> bytes:
    # a script unpacks one array far faster than it reads as many arguments
    parts: list[bytes] = []
    for item in items:
        size = len(item)
        parts.append(_SHORT[size] if size < _SHORT_MAX else _ARRAY.pack(_TEXT_TAG, size))
        parts.append(item)
    return _ARRAY.pack(_ARRAY_TAG, len(parts) // 2) + b"".join(parts)


def packed_lists(lists: Iterable[Iterable[bytes]]) -> bytes:
    parts = [packed(items) for items in lists]
    return _ARRAY.pack(_ARRAY_TAG, len(parts)) + b"".join(parts)
