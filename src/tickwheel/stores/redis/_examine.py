from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tickwheel.stores.contract import Finding

__all__ = ["findings_of"]

LAG_MAX_S: Final = 10
"""Maximum time since a replica last answered, in seconds."""
FULL: Final = 0.9
"""Fraction of `maxmemory` above which a server is nearly full."""


def findings_of(facts: Mapping[str, str], replicas: int) -> Iterator[Finding]:
    if facts.get("role") == "slave":
        master = f"{facts.get('master_host')}:{facts.get('master_port')}"
        yield Finding.wrong("replication", f"this server is a replica, and takes no writes: name its master, {master}")
        return
    connected = int(facts.get("connected_slaves", "0"))
    yield _replication(connected, replicas)
    if least := int(facts.get("min-replicas-to-write") or 0):
        text = f"{least} of {connected} have to be there: with fewer, the server refuses all writes"
        yield Finding.well("min-replicas-to-write", text)
    for number in range(connected):
        replica = dict(each.partition("=")[::2] for each in facts.get(f"slave{number}", "").split(","))
        lag = int(replica.get("lag") or 0)
        if replica.get("state", "online") != "online" or lag > LAG_MAX_S:
            name = f"{replica.get('ip')}:{replica.get('port')}"
            text = f"{name} is {replica.get('state')}, and was last heard of {lag} s ago"
            yield Finding.wrong("replica", f"{text}: look at its log and the network")
    yield from _saving(facts)
    yield _memory(facts)


def _replication(connected: int, replicas: int) -> Finding:
    there = f"{connected} replica{'' if connected == 1 else 's'}"
    if not connected and not replicas:
        text = "no replica: when this server is lost, all is lost that is not in its files"
        return Finding.well("replication", text)
    if not replicas:
        text = f"no answer waits for any of {there}: a failover may lose answered writes that it has not yet received"
        return Finding.wrong("replication", f"{text}: have two or more, and write replicas={connected - 1 or 1}")
    if connected < replicas:
        text = f"the URL has replicas={replicas}, and there is {there}: no write is answered"
        return Finding.wrong("replication", f"{text}: start {replicas - connected} more, or write a smaller replicas=")
    if connected == replicas:
        text = f"every answer waits for {there}: a failover loses nothing, and leaves too few, so that no write is"
        return Finding.wrong("replication", f"{text} answered after it: start one more, or write a smaller replicas=")
    text = f"every answer waits for {replicas} of {there}, of which a failover has to take one that has all"
    return Finding.well("replication", f"{text}; each replica above {replicas} allows one more failover")


def _saving(facts: Mapping[str, str]) -> Iterator[Finding]:
    failed = [
        name
        for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
        if facts.get(name, "ok") != "ok"
    ]
    text = f"{', '.join(failed)} failed: look at its disk and its log" if failed else "the last writes succeeded"
    yield Finding("saving", not failed, text)


def _memory(facts: Mapping[str, str]) -> Finding:
    used, limit = int(facts.get("used_memory") or 0), int(facts.get("maxmemory") or 0)
    if not limit:
        text = f"{used >> 20} MiB, and no maxmemory: the system ends the server when the machine is full"
        return Finding.well("memory", text)
    is_well = used < limit * FULL
    text = f"{used >> 20} of {limit >> 20} MiB"
    return Finding(
        "memory", is_well, text if is_well else f"{text}: a full server refuses all writes, so raise maxmemory"
    )
