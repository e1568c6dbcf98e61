"""
A real PostgreSQL and a real Redis for the tests that request them.

A whole run of pytest uses one server of each kind.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess

import pytest
from lines import Line
from postgres_servers import Pgbouncer, Postgres, PostgresPair
from processes import find, lent
from redis_servers import Redis

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def make_postgres():
    """
    Return a function that starts a server with given settings.

    The fixture stops all its servers.
    """
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    if not (find("initdb") and find("postgres")):
        pytest.skip("PostgreSQL is not installed: there is no initdb and no postgres")
    yield from lent(Postgres)


@pytest.fixture(scope="session")
def postgres(make_postgres):
    """
    Return a running server.
    """
    return make_postgres()


@pytest.fixture(scope="session")
def make_pgbouncer(postgres):
    """
    Return a function that starts a pooler with given settings in front of the server.

    The fixture stops all its poolers.
    """
    if not find("pgbouncer"):
        pytest.skip("PgBouncer is not installed: there is no pgbouncer")
    yield from lent(lambda folder, *settings: Pgbouncer(folder, postgres, *settings))


@pytest.fixture
def postgres_pair(make_postgres):
    """
    Return a primary and its standby, which replicates asynchronously.
    """
    return PostgresPair(make_postgres)


@pytest.fixture
def database(postgres):
    """
    Return the name of an empty database.
    """
    name = postgres.lend()
    yield name
    postgres.take_back(name)


@pytest.fixture
def postgres_url(postgres, database):
    """
    Return the URL of an empty database.
    """
    return postgres.url(database)


@pytest.fixture(scope="session")
def make_redis():
    """
    Return a function that starts a server with given settings.

    The fixture stops all its servers.
    """
    pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
    if not find("redis-server"):
        pytest.skip("Redis is not installed: there is no redis-server")
    yield from lent(Redis)


@pytest.fixture(scope="session")
def redis_server(make_redis):
    """
    Return a running server that syncs to disk before each answer.
    """
    return make_redis("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(params=["postgres", "redis"])
def server_url(request):
    """
    Return the URL of an empty store on a server, once for each kind of server.
    """
    if request.param == "redis":
        return request.getfixturevalue("redis_server").empty_url()
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def postgres_line(postgres):
    """
    Return a proxy in front of the PostgreSQL server. A test may make the proxy slow or silent.
    """
    line = Line(str(postgres.folder / ".s.PGSQL.5432"))
    yield line
    line.close()


@pytest.fixture
def redis_line(redis_server):
    """
    Return a proxy in front of the Redis server. A test may make the proxy slow or silent.
    """
    line = Line(redis_server.port)
    yield line
    line.close()


@pytest.fixture(params=["postgres", "redis"])
def line_and_url(request):
    """
    Return a proxy in front of a server, and the URL of an empty store behind it, for each kind of server.
    """
    line = request.getfixturevalue(f"{request.param}_line")
    if request.param == "redis":
        return line, f"redis://127.0.0.1:{line.port}/0?prefix=line{next(NUMBERS)}"
    return line, f"postgresql://tick@127.0.0.1:{line.port}/{request.getfixturevalue('database')}?shards=4"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """
    Return a function that makes a TLS certificate for the loopback address, and the certificate's key, with openssl.

    The function returns the paths of the two files.
    """
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: run make servers")

    def make(*more: str, key: str = "key.pem") -> tuple[str, str]:
        folder = tmp_path_factory.mktemp("tls")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=127.0.0.1"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", folder / "cert.pem", "-keyout", folder / key]
        subprocess.run([*command, *(more or ["-nodes"])], check=True, capture_output=True, timeout=60)
        return str(folder / "cert.pem"), str(folder / key)

    return make
