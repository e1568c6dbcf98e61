"""
The cost of the PostgreSQL store's statements does not depend on the server's statistics about the tables.

Every statement of every `.sql` file runs on the same rows under four states of statistics, with a generic plan and with
a custom one. A new statement needs an entry in `VALUES`.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import closing

import pytest
from sessions import noted_sessions, session_of

from tickwheel.stores import open_store
from tickwheel.stores.postgres._queries import SQL

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

STATES = ("small", "none", "empty", "large")
PLACEHOLDER = re.compile(r"%(?:s|\((\w+)\)s|(%))")
EVER = 2**63 - 1
BATCH = 500
"""Number of rows that one statement writes."""
SHARDS = 16
ALL = list(range(SHARDS))
ASIDE, PAUSED = 2**31 - 1, 2**31 - 2

FILL = """
INSERT INTO tickwheel_job (key, generation, due_at, payload, target, handler, attempt, recurrence, state, first_set_at,
    shard)
SELECT md5(i::text), i, i, 'payload', 'handler', 'handler ' || i %% 50, 0, CASE WHEN i %% 100 = 5 THEN 'rule' END,
    CASE WHEN i %% 40 = 1 THEN 2 WHEN i < {running} THEN 1 ELSE 0 END, 0,
    CASE WHEN i %% 40 = 1 THEN -1 - i %% {shards} WHEN i < {running} THEN i %% {shards} WHEN i %% 40 = 2 THEN {aside}
        WHEN i %% 40 = 3 THEN {paused} ELSE i %% {shards} END
FROM generate_series(%s::integer, %s::integer) AS i;
INSERT INTO tickwheel_note (shard, generation, key)
SELECT i %% {shards}, i, md5(i::text) FROM generate_series(%s::integer, %s::integer, 5) AS i;
INSERT INTO tickwheel_history (at, key, generation, attempt, outcome, by, target, handler, due_at)
SELECT i, md5((i / 10)::text), i, 1, 'done', 'owner', 'handler', 'handler', i
FROM generate_series(%s::integer, %s::integer) AS i;
INSERT INTO tickwheel_question (shard, generation, due_at, attempt, key, asked_at)
SELECT i %% {shards}, i, i, 1, md5(i::text), {ever} FROM generate_series(%s::integer, %s::integer, 50) AS i;
"""


def running(rows):
    """
    Return the number of running jobs in a store of *rows* jobs. The first jobs are the running ones.
    """
    return rows // 10


def key_of(number):
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def firing(first):
    """
    Return the columns of a batch of jobs that begins with number *first*: their shards, due times and generations.
    """
    numbers = [i for i in range(first, first + 2 * BATCH) if i % 40 not in {1, 2, 3}][:BATCH]
    return [i % SHARDS for i in numbers], numbers, numbers


def values_of(rows):
    """
    Return the values of each statement's parameters for a store with *rows* rows.
    """
    middle = rows // 2
    shards, dues, generations = firing(middle)
    front, keys = firing(101), [key_of(number) for number in generations]
    attempts = [1] * BATCH
    new = [f"new {i}" for i in range(BATCH)]
    zeros, nones, texts = [0] * BATCH, [None] * BATCH, ["handler"] * BATCH
    payloads = [b"payload"] * BATCH

    def columns(names):
        return (
            names,
            generations,
            dues,
            payloads,
            texts,
            texts,
            zeros,
            nones,
            nones,
            nones,
            zeros,
            nones,
            nones,
            zeros,
        )

    page = {
        "first": "8", "end": None, "last": None, "is_dead": False, "recurring": False, "paused": False, "reach": 101,
        "state": None, "due_from": 0, "due_until": EVER, "handler": None, "target": None, "contains": None,
        "error": None, "payload": None, "manifest": None, "limit": 101,
    }  # fmt: skip
    cursors = {
        "shards": ALL,
        "epochs": [shard + 1 for shard in ALL],
        "instants": [middle] * SHARDS,
        "generations": [0] * SHARDS,
    }
    records = [zeros, keys, generations, attempts, texts, texts, texts, texts, dues, nones, nones, nones, nones, nones]
    return {
        "place": (),
        "durability": (),
        "transaction": (),
        "examine_settings": (),
        "examine_standbys": (),
        "examine_slots": (),
        "examine_tables": (),
        "examine_transactions": (),
        "transactions_open": (["1", "2"],),
        "now": (),
        "epochs": ([shard + 1 for shard in ALL], "owner"),
        "hold_epochs": (SHARDS, ALL, [shard + 1 for shard in ALL], "owner"),
        "jobs_by_key": (keys,),
        "jobs_read": (keys,),
        "hold_jobs": (0, keys, ["3"] * BATCH),
        "generations": (BATCH,),
        "raise_generation": {"floor": 5, "margin": 10},
        "begin_jobs": (shards, dues, generations, BATCH),
        "end_jobs": (*front, BATCH),
        "insert_jobs": (*columns(new), nones, nones, nones, nones, shards, BATCH),
        "set_new": {
            "keys": new,
            "places": list(range(1, BATCH + 1)),
            "shards": shards,
            "others": ALL[1:],
            "due_at": None,
            "dues": dues,
            "counted_from": None,
            "counted": [],
            "payload": None,
            "payloads": payloads,
            "target": None,
            "targets": texts,
            "handler": None,
            "handlers": texts,
            "retry": None,
            "retries": [],
            "expires_at": None,
            "expiries": [],
            "trace": None,
            "traces": [],
        },
        "set_one": {
            "key": "one",
            "shard": 3,
            "is_noted": True,
            "counted_from": None,
            "due_at": middle,
            "payload": b"payload",
            "target": "handler",
            "handler": "handler",
            "retry": None,
            "expires_at": None,
            "trace": None,
        },
        "move_one": {
            "key": keys[0],
            "generation": None,
            "shard": 3,
            "is_noted": True,
            "due_at": middle,
            "counted_from": None,
        },
        "cancel_one": {"key": keys[0], "generation": None},
        "turn": {
            "shards": ALL,
            "epochs": [shard + 1 for shard in ALL],
            "owner": "owner",
            "slot": 7,
            "keys": keys,
            "ended_in": front[0],
            "ended_dues": front[1],
            "ended": front[2],
            "begun_in": shards,
            "begun_dues": dues,
            "begun": generations,
        },
        "update_jobs": (*columns(keys), nones, nones, nones, nones, shards),
        "delete_jobs": (keys,),
        "insert_notes": (shards, generations, keys),
        "add_counts": (1, 2, 3),
        "add_counts_apart": (1, 2, 3),
        "gather_counts": (),
        "list_begun": ("owner", 7, keys),
        "still_running": ("owner",),
        "forget_begun": (),
        "job_of_key": (keys[0],),
        "count": (),
        "version": (),
        "jobs_due": (3, EVER, middle, 7, 200),
        "jobs_upcoming": {"since": middle, "until": EVER, "limit": 100},
        "latest_dead": {"limit": 100},
        "jobs_first": {"since": 0, "until": EVER, "shards": [1], "floors": [middle]},
        "jobs_overdue": {"shards": ALL, "floors": [0] * SHARDS, "until": middle, "limit": 100},
        "count_due": {"since": middle, "step": 100, "until": middle + 1_000},
        "shards": (),
        "owners": (),
        "make_shards": (100, 110),
        "cut_leases": (),
        "end_stuck": (3_600_000,),
        "see_node": {"owner": "owner", "lease_ms": 5, "is_guarded": True},
        "guard_node": {"owner": "owner"},
        "expire_deserted": {"owner": "other"},
        "report_figures": ("{}", "owner"),
        "nodes": (600_000,),
        "forget_nodes": ("owner", 5),
        "fair_share": {"owner": "owner"},
        "seen_shards": ("owner",),
        "held_shards": ("owner",),
        "rescue_jobs": {"owner": "owner", "slot": 7},
        "rescue_again": {
            "shards": [i % SHARDS for i in front[1]],
            "keys": [key_of(number) for number in front[1]],
            "generations": front[1],
            "attempts": [0] * BATCH,
        },
        "take_shards": {"owner": "other", "until": 10_000, "lease_ms": 10_000, "missing": 4},
        "delete_notes": ("owner",),
        "renew_shards": (10_000, "owner"),
        "leave_tails": {"shards": ALL, "owner": "owner"},
        "end_tails": ("owner",),
        "give_up_shards": ("owner", ALL),
        "give_up_all": ("owner",),
        "end_of_reach": page,
        "page": page,
        "manifests": {"name": None},
        "make_manifests": (["one", "two"],),
        "lock_manifests": (["one", "two"],),
        "write_manifest": {"name": "one", "version": 1, "digest": "", "revision": None, "rules": "{}"},
        "answers": (["0" * 32, "1" * 32],),
        "prune_answers": (10_000, 2 * BATCH),
        "delete_answers": (["0" * 32], [""]),
        "write_answers": (*[["0" * 32]] * 3, [10_000], [1], [b""], 10_000, 1),
        "last_generation": (),
        "count_paused": (),
        "has_aside": (),
        "hold_lease": (1, 2, "owner"),
        "take_up": {
            "targets": ["handler"],
            "handlers": ["handler 2"],
            "limit": 100,
            "shard": 3,
            "epoch": 4,
            "owner": "owner",
            "unreadable": [],
            "unfit": [],
        },
        "take_notes": {**cursors, "owner": "owner", "limit": BATCH},
        "jobs_ahead": {**cursors, "until": middle + 1_000, "limit": 64},
        "jobs_in_lanes": {
            **{name: cursors[name] for name in ("shards", "instants", "generations")},
            "until": EVER,
            "rows": 100,
            "lanes": ["handler:handler 7"],
            "targets": ["pull"],
            "others": ["pull:handler 7"],
            "inside": False,
            "limit": 64,
        },
        "insert_records": (*records, *[nones] * 4),
        "history": {"key": keys[0], "before": EVER, "limit": 100},
        "acts": {"since": 0, "until": EVER, "limit": 10},
        "keep_minutes": ([60_000], [1], ["a"], ["[]"]),
        "minutes": {"span_ms": 60_000, "since": 0, "until": EVER},
        "forget_minutes": (60_000, 1, 900_000, 1),
        "count_history": (),
        "count_old_history": (1_000, EVER),
        "may_prune": (),
        "delete_history": (BATCH,),
        "delete_others": (BATCH,),
        "delete_acts": (BATCH, 100),
        "long_histories": {"most": 5, "limit": 100},
        "shorten_histories": (keys, [EVER] * BATCH, BATCH),
        "aside": (),
        "handlers_aside": {"target": "handler", "limit": 100},
        "scopes": (),
        "pause_scope": ("handler:a", 1, "", ""),
        "resume_scope": ("handler:a",),
        "notice_server": (),
        "is_same_server": (SHARDS,),
        "lock_schema": (),
        "make_server_again": (),
        "make_version_again": (1, "shape"),
        "make_counts_again": (),
        "leap": {"leap": 5},
        "free_all_shards": (),
        "forget_withdrawal_requests": (60_000,),
        "request_withdrawal": (shards, generations, dues, attempts, keys),
        "shards_of_running": (keys,),
        "unowned_shards": (ALL,),
        "withdrawal_requests": (ALL[:2],),
        "report_started": (generations, dues, attempts),
        "attempts": (keys, generations, dues, attempts),
    }


def planned():
    """
    Return the statements for which the server makes an execution plan.
    """
    return {name: text for name, text in SQL.items() if not text.startswith("COPY")}


def fill(connection, first, last):
    """
    Make jobs numbered *first* to *last*.

    The function also makes rows in the tables of change announcements, history and withdrawal requests.
    """
    script = FILL.format(running=running(last), shards=SHARDS, aside=ASIDE, paused=PAUSED, ever=EVER)
    for statement in script.split(";")[:-1]:
        connection.execute(statement, (first, last))


def forget_statistics(connection, reltuples):
    """
    Remove the server's statistics about the tables, and set the number of rows that it assumes to *reltuples*.
    """
    tables = connection.execute("SELECT oid FROM pg_class WHERE relname LIKE 'tickwheel%'").fetchall()
    numbers = [number for (number,) in tables]
    connection.execute("DELETE FROM pg_statistic WHERE starelid = ANY(%s)", (numbers,))
    connection.execute("UPDATE pg_class SET reltuples = %s WHERE oid = ANY(%s)", (reltuples, numbers))


def set_statistics(connection, state, rows):
    """
    Give the server the statistics of *state*, one of `STATES`.

    The function is called for the states in order. The first call also creates the rows.
    """
    if state == "small":
        fill(connection, 1, 100)
        connection.execute("ANALYZE")
        fill(connection, 101, rows)
        connection.execute("UPDATE tickwheel_shard SET former = '', epoch = shard + 1")
        begun = [key_of(number) for number in firing(101)[2]]
        connection.execute("INSERT INTO tickwheel_begun VALUES ('owner', 0, %s), ('gone', 0, %s)", (begun, begun))
    elif state == "none":
        forget_statistics(connection, -1)
    elif state == "empty":
        forget_statistics(connection, 0)
    else:
        connection.execute("ANALYZE")


def numbered(text, values):
    """
    Return the statement *text* with numbered parameters, and the parameters' values in order.
    """
    given = []

    def number(found):
        if found[2]:
            return "%"
        given.append(values[found[1] or len(given)])
        return f"${len(given)}"

    return PLACEHOLDER.sub(number, text), given


def cost_of(connection, text, values):
    """
    Return the number of cache pages that the statement touches, and the number of rows that it reads.
    """
    prepared, given = numbered(text, values)
    connection.execute(f"PREPARE tried AS {prepared}")
    places = f"({', '.join(['%s'] * len(given))})" if given else ""
    execute = psycopg.ClientCursor(connection).mogrify(f"EXECUTE tried {places}", given)
    try:
        with connection.transaction(force_rollback=True):
            ((explained,),) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}").fetchall()
    finally:
        connection.execute("DEALLOCATE tried")
    plan = explained[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], rows_in(plan)


def rows_in(plan):
    """
    Return the number of rows that the nodes of *plan* read in total.
    """
    own = sum(plan.get(name, 0) for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter"))
    return own * plan["Actual Loops"] + sum(map(rows_in, plan.get("Plans", ())))


@pytest.fixture
def connection(postgres, database):
    """
    Return a connection to a store's database, in which autovacuum never analyses the tables.
    """
    url = f"{postgres.url(database)}&shards={SHARDS}"
    with noted_sessions() as sessions, closing(open_store(url)) as store:
        store.acquire("owner")
        connection = session_of(store, sessions)
        tables = "SELECT relname FROM pg_class WHERE relname LIKE 'tickwheel%' AND relkind = 'r'"
        for (table,) in connection.execute(tables).fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        yield connection


def test_every_statement_is_tried():
    """
    Parameter values exist for every statement that the server plans, and for no other statement.
    """
    assert set(values_of(1_000)) == set(planned())


@pytest.mark.parametrize("rows", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_statistics_change_no_cost(connection, rows):
    """
    Whatever statistics the server has, a statement touches at most three times the pages of the best case, plus 100.

    A similar limit holds for the rows that the statement reads.
    """
    costs = {name: {} for name in planned()}
    for state in STATES:
        set_statistics(connection, state, rows)
        values = values_of(rows)
        for mode in ("force_generic_plan", "force_custom_plan"):
            connection.execute(f"SET plan_cache_mode = {mode}")
            for name, text in planned().items():
                costs[name][state, mode] = cost_of(connection, text, values[name])
    dear = {name: found for name, found in costs.items() if is_dear(found.values(), 100)}
    assert not dear


def is_dear(costs, margin):
    """
    Return True if the highest of *costs* exceeds three times the lowest plus a margin.

    Pages and rows are compared separately. The margin for rows is ten times *margin*.
    """
    pages, looked_at = zip(*costs, strict=True)
    return max(pages) > 3 * min(pages) + margin or max(looked_at) > 3 * min(looked_at) + 10 * margin
