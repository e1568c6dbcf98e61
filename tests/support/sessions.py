"""
The sessions that stores open with PostgreSQL.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock


@contextmanager
def noted_sessions():
    """
    Yield a list to which every PostgreSQL session that this process opens within the block is appended.
    """
    import psycopg  # noqa: PLC0415  an extra

    noted, connect = [], psycopg.Connection.connect.__func__

    def noting(kind, *args, **kwargs):
        noted.append(connect(kind, *args, **kwargs))
        return noted[-1]

    with mock.patch.object(psycopg.Connection, "connect", classmethod(noting)):
        yield noted


def session_of(store, sessions):
    """
    Return a session of *store* for the test alone.

    The session has no time limit.
    """
    store.count()
    session = next(each for each in sessions if not each.closed and not each.pgconn.pipeline_status)
    session.left_s = 3_600.0
    return session
