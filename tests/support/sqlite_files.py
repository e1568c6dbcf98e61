"""
SQLite files as a program beside the store sees them, and the connections that stores make.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from unittest import mock


def connected(path):
    """
    Return a connection of the test's own to the file at *path*; use it in a `with` statement, which closes it.
    """
    return closing(sqlite3.connect(path, timeout=60, isolation_level=None))


def rows(path, query, values=()):
    """
    Return the rows of *query*.
    """
    with connected(path) as connection:
        return connection.execute(query, values).fetchall()


def value(path, query, values=()):
    """
    Return the one value of *query*.
    """
    ((found,),) = rows(path, query, values)
    return found


@contextmanager
def writing(path):
    """
    Open a write transaction, commit it at the end, and yield its connection.
    """
    with connected(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def is_sound(path):
    """
    Return whether SQLite finds no damage in the file.
    """
    return rows(path, "PRAGMA integrity_check") == [("ok",)]


def pages_logged(path, call):
    """
    Return the number of pages that *call* writes to the log, if no other thread runs a checkpoint.
    """
    with connected(path) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        call()
        return connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]


@contextmanager
def noted_connections():
    """
    Yield a list that gets every connection to SQLite that the process makes meanwhile.
    """
    made, connect = [], sqlite3.connect

    def noting(*args, **kwargs):
        made.append(connect(*args, **kwargs))
        return made[-1]

    with mock.patch.object(sqlite3, "connect", noting):
        yield made


def statements_of(connections, call):
    """
    Return the statements that *call* runs on *connections*.
    """
    found = []
    for connection in connections:
        connection.set_trace_callback(found.append)
    call()
    for connection in connections:
        connection.set_trace_callback(None)
    return found


def steps_of(connections, call):
    """
    Return how many steps of its virtual machine SQLite takes for *call* on *connections*, which may get more meanwhile.
    """
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    for connection in connections:
        connection.set_progress_handler(count, 1)
    call()
    for connection in connections:
        connection.set_progress_handler(None, 1)
    assert steps > 0
    return steps
