"""
The plans of the SQLite store's statements do not depend on the statistics that ANALYZE leaves in the file.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from sqlite_files import noted_connections, steps_of

from tickwheel.jobs import model
from tickwheel.stores import Cursor
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite._queries import SQL, for_keys, jobs_by_key, paging

KEYS = (("keys_of_shelf", (-1,)), ("keys_of_shelf", (-3, 0, 1, 7)), ("running_keys",), ("recurring_keys",))
SMALL = re.compile(r"(SEARCH|SCAN) (l|g|tickwheel_(level|shelf|gone|ledger|scope|manifest))\b.*")
"""Steps of query plans on tables that stay small. Such tables may be scanned completely."""


def statements():
    """
    Return all statements, by name, with their placeholders.
    """
    found = {}
    for name in SQL:
        if name in {"page", "end_of_reach"}:
            found |= {f"{name} by {keys}": paging(name, *keys) for keys in KEYS}
        elif name == "jobs_by_key":
            found |= {f"{name} {size}": jobs_by_key(size, shelves) for size in (256, 1) for shelves in ("0, 1", "?")}
        else:
            found[name] = for_keys(name, 125).replace(":shelf", "7")
    return found


def plans_of(path):
    """
    Return the plan of each statement, without the steps on small tables.
    """
    found = {}
    with closing(sqlite3.connect(path)) as connection:
        for name, text in statements().items():
            names = set(re.findall(r":(\w+)", text))
            values = dict.fromkeys(names, 1) if names else (1,) * re.sub(r"'[^']*'", "", text).count("?")
            rows = connection.execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall()
            found[name] = [row[3] for row in rows if not SMALL.fullmatch(row[3])]
    return found


def analyze(path):
    """
    Run ANALYZE, which stores the numbers of rows and sample values.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ANALYZE")
        connection.commit()


def fill(store, count, prefix):
    """
    Set jobs, near and far.

    Some of them recur.
    """
    store.apply(
        [
            model.Set(model.Job(f"{prefix} {i}", 0, i if i % 2 else 10**13 + i, recurrence=None if i % 10 else "{}"))
            for i in range(count)
        ]
    )


@pytest.mark.parametrize("rows", [0, 3, 30, 100, 1_000])
def test_no_plan_depends_on_statistics(tmp_path, rows):
    """
    For tables that grow, the statistics of a file with few or many jobs change no query plan.
    """
    path = tmp_path / "jobs.db"
    with closing(SqliteStore(path)) as store:
        store.open()
        before = plans_of(path)
        fill(store, rows, "some")
        analyze(path)
        after = plans_of(path)
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert changed == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda store, epoch: store.look([Cursor(0, epoch, (50, 0), 0)], 1_000, 20, with_changes=True),
        lambda store, _: store.get("more 7"),
        lambda store, _: store.page(model.JobQuery(prefix="more", limit=10)),
        lambda store, _: store.apply([model.Move(f"more {i}", 3) for i in range(256)]),
        lambda store, _: store.due(0, 1_000, None, 50),
    ],
    ids=["look", "get", "page", "move", "due"],
)
@pytest.mark.usefixtures("weighed")
def test_statistics_of_a_small_file_cost_nothing(tmp_path, call):
    """
    Old statistics from a time when the file had few jobs cost nothing when the file has thousands of jobs.
    """
    steps = {}
    for is_analyzed in (False, True):
        path = tmp_path / f"{is_analyzed}.db"
        with closing(SqliteStore(path)) as store:
            store.open()
            store.acquire("owner")
            fill(store, 100, "some")
            if is_analyzed:
                analyze(path)
        with noted_connections() as made, closing(SqliteStore(path)) as store:
            store.open()
            epoch = store.acquire("owner")[0].epoch
            for part in range(4):
                fill(store, 1_000, f"more {part}" if part else "more")
            store.count()
            steps[is_analyzed] = steps_of(made, lambda store=store, epoch=epoch: call(store, epoch))
    assert steps[True] <= 1.2 * steps[False] + 100
