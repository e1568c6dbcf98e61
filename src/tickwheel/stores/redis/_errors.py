from __future__ import annotations

import re
from typing import Final, NamedTuple

from tickwheel.jobs.errors import StoreError, StoreFormatError

__all__ = ["LOST", "store_error"]


class _Words(NamedTuple):
    what: str
    remedy: str
    is_transient: bool = False
    kind: type[StoreError] = StoreError


LOST: Final = _Words("the connection failed", "see that the server runs and can be reached", is_transient=True)

_FAILED: Final = _Words("Redis failed", "look into the server's log")
_PASSWORD: Final = _Words("the server refuses this user", "check the user's name and password")
_RIGHTS: Final = _Words(
    "the server refuses this user a command",
    "give it +@read +@write +@scripting +@connection +@pubsub +time +info, on ~{PREFIX}* and &{PREFIX}*, "
    "with \\ before [ and ] in PREFIX",
)
_REPLICA: Final = _Words("the server is a replica and takes no writes", "connect to its primary", is_transient=True)
_BUSY: Final = _Words("the server is busy with a script", "try again", is_transient=True)
_CLUSTER: Final = _Words("the cluster is incomplete", "check its nodes", is_transient=True)

_CODES: Final = {
    "WRONGPASS": _PASSWORD,
    "NOAUTH": _PASSWORD,
    "NOPERM": _RIGHTS,
    "LOADING": _Words("the server is still loading its data", "try again", is_transient=True),
    "READONLY": _REPLICA,
    "MASTERDOWN": _REPLICA,
    # These errors are permanent: the writer then looks for the write that does not fit, and applies all other writes.
    "OOM": _Words("the server has no memory left", "raise its maxmemory; what was begun can still be settled"),
    "MISCONF": _Words(
        "the server takes no writes because it cannot save", "look into its log; free its disk", is_transient=True
    ),
    "NOREPLICAS": _Words("the server has too few replicas to take writes", "see to them", is_transient=True),
    "BUSY": _BUSY,
    "UNKILLABLE": _BUSY,
    "TRYAGAIN": _CLUSTER,
    "IOERR": _CLUSTER,
    "DENIED": _Words("the server takes connections from its own machine only", "set a password there, or bind it"),
    "CLUSTERDOWN": _CLUSTER,
    "MOVED": _Words(
        "another node of the cluster holds this store", "open it by redis+cluster:// and some of the cluster's nodes"
    ),
    "ASK": _Words("the cluster is moving this store", "try again when it has been moved", is_transient=True),
    "WRONGTYPE": _Words(
        "one of the store's keys holds something else",
        "choose another prefix=, or another database",
        kind=StoreFormatError,
    ),
}
_TEXTS: Final = {
    "max number of clients": _Words(
        "the server takes no more connections", "close some, or try again", is_transient=True
    ),
    "without any password configured": _Words("the server has no password", "leave it out"),
    "DB index is out of range": _Words("there is no such database", "name another"),
    "SELECT is not allowed": _Words("a cluster has database 0 only", "leave the database out"),
    "invalid DB index": _Words("there is no such database", "name another"),
    "can't run this command": _RIGHTS,
    "can't access": _RIGHTS,
    "Lua redis lib command arguments": _Words("a value cannot be stored", "pass texts and integers in int64"),
}
_CLASSES: Final = {
    "AskError": "ASK",
    "AuthenticationError": "WRONGPASS",
    "BusyLoadingError": "LOADING",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}
"""Error codes that the driver removes from its errors. Without its code, an error can look like a lost connection."""

_CODE: Final = re.compile(r"[A-Z]{2,}\b")


def store_error(error: Exception, url: str, *, is_sent: bool = False) -> StoreError:
    text = str(error).partition("\n")[0]
    for part, words in _TEXTS.items():
        if part in text:
            return _error(url, words, text)
    kinds = [kind.__name__ for kind in type(error).__mro__]
    code = next((_CLASSES[kind] for kind in kinds if kind in _CLASSES), "")
    if not code and "ResponseError" in kinds:
        found = _CODE.match(text)
        code = found[0] if found else "ERR"
    if code:
        return _error(url, _CODES.get(code, _FAILED), text)
    return StoreError(f"{url}: {LOST.what} ({text})", LOST.remedy, is_transient=True, is_unknown=is_sent)


def _error(url: str, words: _Words, text: str) -> StoreError:
    return words.kind(f"{url}: {words.what} ({text})", words.remedy, is_transient=words.is_transient)
