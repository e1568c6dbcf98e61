from __future__ import annotations

from typing import Final

from tickwheel.jobs.errors import StoreError, StoreFormatError
from tickwheel.stores._sharding import SHARDS
from tickwheel.stores._unreleased import unreleased
from tickwheel.stores.redis._blob import LAYOUT
from tickwheel.stores.redis._connections import Connections

__all__ = ["check_server", "facts_of", "loss_window", "make_schema"]

VERSION: Final = 5
"""
Version of the keys and their values (see scripts/_common.lua and _blob.py). An undivided store has version 4.

Version 1 had no tails and a fixed number of shards, 2 had no paused jobs, and 3 had no paused scopes.
"""

_SERVER_MIN: Final = 7
_SHARDS_MIN: Final = 4
"""Minimum number of shards of a partition. The default number of shards is divided among the partitions."""

_AOF_LOSSES: Final = {
    "always": "",
    "everysec": (  # the server delays its answers during a sync, for up to two seconds
        "answered writes of the last two seconds, when the server's machine loses power, "
        "or the server is killed while its disk is slow"
    ),
    "no": "answered writes that the system had not yet written to the disk, when the server's machine loses power",
}
_UNKNOWN: Final = (
    "answered writes that were not yet on the server's disk, when its machine loses power; "
    "this user may not read appendfsync, which says how many"
)
_SNAPSHOT: Final = "answered writes since the last snapshot, when the server crashes: set appendonly yes"
_EVERYTHING: Final = "everything, when the server stops: set appendonly yes"
_LAG: Final = "answered writes that the replica has not yet received when it takes over"
_SOME_LAG: Final = "answered writes, of which {} of {} replicas have each, when another replica takes over"


def check_server(connections: Connections, url: str, replicas: int = 0) -> str:
    facts = facts_of(connections)
    version = facts.get("redis_version", "")
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < _SERVER_MIN:
        what = f"{url} is Redis {version}"
        raise StoreError(what, f"use {_SERVER_MIN}.0 or newer")
    policy = facts.get("maxmemory-policy") or facts.get("maxmemory_policy") or "noeviction"
    if policy != "noeviction":
        what = f"{url} has maxmemory-policy {policy}, by which a full server may throw jobs away"
        raise StoreError(what, "CONFIG SET maxmemory-policy noeviction, and in its configuration file")
    connections.run("probe")
    return loss_window(facts, replicas)


def loss_window(facts: dict[str, str], replicas: int = 0) -> str:
    """
    Return a description of the acknowledged writes that a server with these settings may lose; "" if it loses none.

    *facts* has the server's reported settings; *replicas* is the number of replicas that each write waits for.
    """
    aof = facts.get("appendonly") or {"0": "no", "1": "yes"}.get(facts.get("aof_enabled", ""), "")
    loss = _AOF_LOSSES.get(facts.get("appendfsync", ""), _UNKNOWN)
    if aof == "no":
        loss = _SNAPSHOT if facts.get("save", "?") else _EVERYTHING
    connected = int(facts.get("connected_slaves", "0"))
    lag = ""
    if connected > replicas:
        lag = _LAG if not replicas else _SOME_LAG.format(replicas, connected)
    return "; ".join(filter(None, (loss, lag)))


def make_schema(connections: Connections, url: str, wanted: int | None, first: int = 0) -> tuple[int, int]:
    """
    Create the store if it does not exist. Return its number of shards now, and at its creation.

    The store gets at least *wanted* shards; existing jobs stay in their shards. If an earlier store, created with
    *first* shards, has disappeared, generations and epochs start far above the old ones.
    """
    number, total = partition = connections.partition
    own, usual = VERSION - (total == 1), max(_SHARDS_MIN, SHARDS // total)
    answer = connections.run("open", own, wanted or 0, usual, first, partition.leap(), number, total, LAYOUT)
    *numbers, layout = answer
    version, there, first, partitions = (int(each) if each is not None and each.isdigit() else 0 for each in numbers)
    if partitions != total:
        what = f"{url} has partitions={partitions}, and {total} were asked for"
        raise StoreFormatError(what, f"write partitions={partitions}, or move the jobs to another prefix=")
    if version > VERSION:
        what = f"{url} has schema version {version}, and this tickwheel knows 1 to {VERSION}"
        raise StoreFormatError(what, "upgrade tickwheel; the store was left as it is")
    if version and layout != LAYOUT.encode():
        raise unreleased(url, f"schema version {version}, layout {(layout or b'none').decode()!r}, not {LAYOUT!r}")
    if not version or not there:
        what = f"{url} holds something else where the store would be"
        raise StoreFormatError(what, "choose another prefix=, or another database")
    return there, first


def facts_of(connections: Connections) -> dict[str, str]:
    facts: dict[str, str] = {}
    for words in (
        ("INFO",),
        ("CONFIG", "GET", "appendonly"),
        ("CONFIG", "GET", "appendfsync"),
        ("CONFIG", "GET", "save"),
        ("CONFIG", "GET", "min-replicas-to-write"),
    ):
        try:
            reply = connections.call(*words)
        except StoreError as error:
            if error.is_transient:
                raise
            continue
        if isinstance(reply, bytes):
            lines = reply.decode("utf-8", "replace").splitlines()
            facts.update((name, value) for name, colon, value in (line.partition(":") for line in lines) if colon)
        else:
            texts = [each.decode("utf-8", "replace") for each in reply]
            facts.update(zip(texts[::2], texts[1::2], strict=True))
    return facts
