"""
The sessions with PostgreSQL that stores make.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock


@contextmanager
def noted_sessions():
    """
    Yield a list that gets every session with PostgreSQL that the process makes meanwhile.
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
    Return a session of *store* without a time limit, which the test uses while no one else does.
    """
    store.count()
    session = next(each for each in sessions if not each.closed and not each.pgconn.pipeline_status)
    session.left_s = 3_600.0
    return session
