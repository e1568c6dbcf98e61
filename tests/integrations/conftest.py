"""
A real PostgreSQL for the tests that ask for one, as in the stores' tests.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

import pytest

SERVERS = Path(__file__).parents[1] / "scheduler" / "stores" / "conftest.py"


@pytest.fixture
def postgres_url():
    """
    Return the URL of the database of a server that is stopped in the end.
    """
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    spec = importlib.util.spec_from_file_location("servers", SERVERS)
    servers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(servers)
    if not (servers.find("initdb") and servers.find("postgres")):
        pytest.skip("PostgreSQL is not installed: there is no initdb and no postgres")
    folder = Path(tempfile.mkdtemp(prefix="tickwheel-"))
    server = servers.Postgres(folder)
    server.start()
    yield server.url("postgres")
    server.stop()
    shutil.rmtree(folder)
