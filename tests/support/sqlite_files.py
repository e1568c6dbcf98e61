"""
SQLite files as seen from outside the store, and the connections that stores open.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from unittest import mock


def connected(path):
    """
    Return a separate connection to the file at *path*.

    A `with` statement closes it.
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
    Return the only value of *query*.
    """
    ((found,),) = rows(path, query, values)
    return found


@contextmanager
def writing(path):
    """
    Yield a connection with an open write transaction.

    The transaction is committed at the end.
    """
    with connected(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def is_sound(path):
    """
    Return True if SQLite finds no damage in the file.
    """
    return rows(path, "PRAGMA integrity_check") == [("ok",)]


def pages_logged(path, call):
    """
    Return the number of pages that *call* writes to the log.

    No other thread may run a checkpoint during the call.
    """
    with connected(path) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        call()
        return connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]


@contextmanager
def noted_connections():
    """
    Yield a list to which every SQLite connection that this process opens within the block is appended.
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
    Return the number of steps of SQLite's virtual machine during *call*.

    *call* may append connections to *connections*. The steps of these new connections are not counted.
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
