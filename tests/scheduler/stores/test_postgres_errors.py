"""
The classification of PostgreSQL's errors as transient or permanent, by SQLSTATE.

Refused connections have no SQLSTATE, and are classified by their messages.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress

import pytest

from tickwheel.jobs.errors import StoreError, StoreFormatError
from tickwheel.stores import open_store
from tickwheel.stores.postgres._errors import _CLASSES, state_of_refusal, store_error

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

TRANSIENT = {"08", "25", "40", "53", "55", "57", "72"}
"""
Classes of transient errors: lost connections, conflicts, lack of resources, locks, and an operator's intervention.
"""
PERMANENT = {
    *(
        "00",
        "01",
        "02",
        "03",
        "09",
        "0A",
        "0B",
        "0F",
        "0L",
        "0P",
        "0Z",
        "10",
        "20",
        "21",
        "22",
        "23",
        "24",
        "26",
        "27",
        "28",
    ),
    *("2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "42", "44", "54", "58", "F0", "HV", "P0", "XX"),
}

STATES = {
    "08006": (True, "the connection failed"),
    "22021": (False, "a value cannot be stored"),
    "25006": (True, "the server takes no writes"),
    "25P03": (True, "another transaction was in the way"),
    "28P01": (False, "the server refuses this user"),
    "3D000": (False, "there is no such database"),
    "40001": (True, "another transaction was in the way"),
    "40P01": (True, "another transaction was in the way"),
    "42501": (False, "the statement was refused"),
    "53100": (True, "the server has no room left"),
    "53300": (True, "the server has no room left"),
    "55P03": (True, "a lock was not to be had in time"),
    "57014": (True, "the server ended the call"),
    "57P01": (True, "the server ended the call"),
    "57P03": (True, "the server is starting up or shutting down"),
    "57P04": (False, "there is no such database"),
    "58030": (False, "the server's disk failed"),
    "XX000": (False, "PostgreSQL failed"),
    "XX001": (False, "the server found its data damaged"),
}

REFUSALS = {
    'FATAL:  database "nowhere" does not exist': "3D000",
    'FATAL:  role "nobody" does not exist': "28000",
    'FATAL:  role "them" is not permitted to log in': "28000",
    'FATAL:  password authentication failed for user "tick"': "28P01",
    'FATAL:  Peer authentication failed for user "tick"': "28P01",
    'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "tick", database "db", no encryption': "28000",
    'FATAL:  pg_hba.conf rejects connection for host "10.0.0.1", user "tick"': "28000",
    'FATAL:  permission denied for database "db"': "42501",
    "fe_sendauth: no password supplied": "28P01",
    "FATAL:  the database system is starting up": None,
    "FATAL:  the database system is shutting down": None,
    "FATAL:  the database system is in recovery mode": None,
    "FATAL:  the database system is not yet accepting connections": None,
    "FATAL:  sorry, too many clients already": None,
    "FATAL:  remaining connection slots are reserved for non-replication superuser connections": None,
    'FATAL:  too many connections for role "tick"': None,
    'FATAL:  too many connections for database "db"': None,
    'FATAL:  database "db" is not currently accepting connections': None,
    "FATAL:  das Datenbanksystem startet": None,
    "Connection refused": None,
}


def error_of(state):
    """
    Return an error as the driver raises it.
    """
    error = psycopg.Error("it says something about a database, a role and authentication failed")
    error.sqlstate = state
    return error


def test_every_class_is_known():
    """
    The store's table of error classes contains every class that the driver knows.

    It classifies each class as transient or permanent, as this test does.
    """
    known = {
        kind.sqlstate[:2] for kind in vars(psycopg.errors).values() if isinstance(getattr(kind, "sqlstate", None), str)
    }
    assert known <= set(_CLASSES) == TRANSIENT | PERMANENT
    for prefix in _CLASSES:
        found = store_error(error_of(f"{prefix}999"), "db", is_connected=True)
        assert (prefix, found.is_transient) == (prefix, prefix in TRANSIENT)
        assert found.is_unknown is False


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_connected", [True, False])
def test_states(state, is_connected):
    """
    An error is classified by its SQLSTATE, even if the connection ended with this error.
    """
    is_transient, what = STATES[state]
    found = store_error(error_of(state), "db", is_connected=is_connected)
    assert found.is_transient is is_transient
    assert str(found).startswith(f"db: {what} (")
    assert isinstance(found, StoreFormatError) is (state == "XX001")


@pytest.mark.parametrize(
    ("state", "is_connected", "is_unknown"), [("57P01", False, True), ("40003", True, True), ("40001", True, False)]
)
def test_commits_with_an_unknown_outcome(state, is_connected, is_unknown):
    """
    The outcome of a commit is unknown if the connection is lost during the commit.

    It is also unknown if the server itself does not know how the commit ended.
    """
    found = store_error(error_of(state), "db", is_connected=is_connected, is_committing=True)
    assert (found.is_transient, found.is_unknown) == (True, is_unknown)


@pytest.mark.parametrize("text", REFUSALS)
def test_refused_connections(text):
    """
    A refused connection is a permanent error only if the message matches one of the known permanent refusals.

    Any other refusal may be temporary, so it is a transient error.
    """
    assert (
        state_of_refusal(f'connection failed: connection to server on socket "/database/role": {text}')
        == REFUSALS[text]
    )


def test_server_without_a_connection(postgres, database):
    """
    If the server has no free connection for this user or database, the error is transient.
    """
    postgres.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
    postgres.execute(f"CREATE DATABASE closed_{database} ALLOW_CONNECTIONS false")
    for url in (postgres.url(database).replace("user=tick", "user=crowded"), postgres.url(f"closed_{database}")):
        with pytest.raises(StoreError, match="the connection failed") as caught:
            open_store(url)
        assert caught.value.is_transient
    postgres.execute(f"DROP DATABASE closed_{database}")
    postgres.execute("DROP ROLE crowded")


def test_server_that_shuts_down(make_postgres):
    """
    A server that is shutting down refuses new sessions.

    This is not reported as a missing database.
    """
    server = make_postgres()
    with psycopg.connect(host=str(server.folder), user="tick", dbname="postgres"):
        server.signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        said = ""
        while "shutting down" not in said:
            assert time.monotonic() < deadline
            with suppress(StoreError):
                open_store(server.url("postgres")).close()
                continue
            with pytest.raises(StoreError) as caught:
                open_store(server.url("postgres"))
            said = str(caught.value)
        assert caught.value.is_transient
