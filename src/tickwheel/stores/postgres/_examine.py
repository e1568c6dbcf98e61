from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tickwheel.stores.contract import Finding
from tickwheel.stores.postgres._queries import SQL

__all__ = ["findings_of"]

LAG_MAX: Final = 16 << 20
"""Maximum number of log bytes that a standby may still have to replay: one segment."""
ROWS_MIN: Final = 10_000
"""Minimum number of rows in a table whose statistics are checked."""
DEAD_MAX: Final = 100_000
"""Tables with more dead rows than this are reported: twice the limit of autovacuum."""
LONG_S: Final = 300
"""Transactions that last longer than this many seconds are reported."""
_MIB: Final = 1 << 20


def findings_of(connection: Any, *, is_pooled: bool) -> Iterator[Finding]:
    is_standby, names, is_cared_for, pid = connection.execute(SQL["examine_settings"]).fetchone()
    yield pooler_finding(is_between=pid != connection.info.backend_pid, is_pooled=is_pooled)
    if is_standby:
        yield Finding.wrong("replication", "this server is a standby, and takes no writes: name its primary")
        return
    standbys = connection.execute(SQL["examine_standbys"]).fetchall()
    yield _replication(names, standbys)
    yield from _lagging(standbys)
    for name, kept in connection.execute(SQL["examine_slots"]).fetchall():
        text = f"{name!r} keeps {kept // _MIB} MiB of the log, and no standby reads it"
        yield Finding.wrong("replication slot", f"{text}: start its standby, or pg_drop_replication_slot({name!r})")
    yield from _tables(connection.execute(SQL["examine_tables"]).fetchall(), is_cared_for=is_cared_for)
    yield from _transactions(connection.execute(SQL["examine_transactions"]).fetchall())


def pooler_finding(*, is_between: bool, is_pooled: bool) -> Finding:
    if is_between and not is_pooled:
        remedy = "add pooler=transaction to the URL, unless it lends whole sessions, or connect to the server itself"
        return Finding.wrong("pooler", f"there is one in between: {remedy}")
    if is_pooled and not is_between:
        return Finding.well("pooler", "none in between: without pooler=transaction each call takes fewer round trips")
    return Finding.well("pooler", "in between, and the URL has pooler=transaction" if is_pooled else "none in between")


def _replication(names: str, standbys: list[tuple[str, str, int]]) -> Finding:
    waited_for = [name for name, state, _ in standbys if state in ("sync", "quorum")]
    others = ", ".join(name for name, *_ in standbys)
    if names and waited_for:
        text = f"every answer waits for {' and '.join(waited_for)}: a failover to it loses nothing"
        return Finding.well("replication", text)
    if names:
        text = f"no standby of synchronous_standby_names = {names!r} streams, so that every write waits for it"
        return Finding.wrong("replication", f"{text}: start it, or set synchronous_standby_names = ''")
    if standbys:
        text = f"no answer waits for {others}: a failover may lose answered writes that it has not yet received"
        return Finding.wrong("replication", f"{text}: set synchronous_standby_names")
    text = "no standby streams: when this server is lost, all is lost that came after its last backup"
    return Finding.well("replication", text)


def _lagging(standbys: list[tuple[str, str, int]]) -> Iterator[Finding]:
    for name, _, behind in standbys:
        if behind > LAG_MAX:
            text = f"{name} has yet to replay {behind // _MIB} MiB of the log, which a failover waits for or loses"
            yield Finding.wrong("standby", f"{text}: look at its disk, its network and its long queries")


def _tables(tables: list[tuple[str, int, int, int, bool]], *, is_cared_for: bool) -> Iterator[Finding]:
    if not is_cared_for:
        text = "autovacuum or track_counts is off, so that dead rows stay and statistics grow old: set both to on"
        yield Finding.wrong("autovacuum", text)
    is_counted = is_lean = True
    for name, live, dead, changed, was_analysed in tables:
        if live + dead > ROWS_MIN and not was_analysed:
            is_counted = False
            yield Finding.wrong("statistics", f"{name} has {live} rows and was never analysed: run ANALYZE {name}")
        elif was_analysed and changed > max(ROWS_MIN, live):
            is_counted = False
            text = f"{changed} rows of {name} changed since it was analysed, and it has {live}"
            yield Finding.wrong("statistics", f"{text}: run ANALYZE {name}, and see whether autovacuum keeps up")
        if dead > max(DEAD_MAX, live):
            is_lean = False
            text = f"{name} has {dead} dead rows beside {live}: end what holds vacuum back, if anything is named here"
            yield Finding.wrong("bloat", f"{text}, and run VACUUM {name}")
    if is_counted:
        yield Finding.well("statistics", "as new as they need to be; no statement of tickwheel's depends on them")
    if is_lean:
        yield Finding.well("bloat", f"{sum(dead for _, _, dead, *_ in tables)} dead rows")


def _transactions(found: list[tuple[str, int]]) -> Iterator[Finding]:
    long = [(name, age_s) for name, age_s in found if age_s >= LONG_S]
    for name, age_s in long:
        text = f"{name} has been in a transaction for {age_s} s, and no vacuum removes what died since"
        yield Finding.wrong("long transaction", f"{text}: end it, and set idle_in_transaction_session_timeout")
    if not long:
        yield Finding.well("long transaction", "none")
