"""
A write with `conn=` joins a transaction of SQLAlchemy or Django.

It takes effect if and only if the transaction commits.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from contextlib import closing
from importlib import import_module

import pytest

from tickwheel.scheduler import AsyncScheduler, Scheduler, TransactionError

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed: pip install sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm", reason="as above")
automap = pytest.importorskip("sqlalchemy.ext.automap", reason="as above")

LATER = {"delay": 3600, "handler": "h"}
INSERT = sqlalchemy.text("INSERT INTO orders VALUES (17)")
COUNT = sqlalchemy.text("SELECT count(*) FROM orders")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def engine(url):
    """
    Return an SQLAlchemy engine on the store's database, with a table of the caller.
    """
    made = sqlalchemy.create_engine(
        url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool
    )
    with made.begin() as conn:
        conn.execute(sqlalchemy.text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    yield made
    made.dispose()


@pytest.fixture
def client(url, engine):  # noqa: ARG001  the table is there before the store is
    with closing(Scheduler(url)) as scheduler:
        scheduler.get("opened")
        yield scheduler


@pytest.mark.parametrize("make", [orm.Session, lambda engine: orm.scoped_session(orm.sessionmaker(engine))])
def test_a_session(client, engine, make):
    """
    The job joins the transaction of the session.

    If the session has no transaction yet, the write begins one.
    """
    session = make(engine)
    client.set("first", conn=session, **LATER)
    session.execute(INSERT)
    assert client.get("first") is None
    session.commit()
    assert client.get("first") is not None
    session.execute(sqlalchemy.text("DELETE FROM orders"))
    client.set("second", conn=session, **LATER)
    session.rollback()
    assert (client.get("second"), session.execute(COUNT).scalar()) == (None, 1)
    session.close()


def test_a_connection(client, engine):
    """
    The job joins the transaction of the connection.

    If the connection has no transaction yet, the first write begins one.
    """
    with engine.begin() as conn:
        conn.execute(INSERT)
        assert client.set("a", conn=conn, **LATER).outcome == "created"
    assert client.get("a") is not None
    with engine.connect() as conn:
        client.cancel("a", conn=conn)  # the test commits nothing
    assert client.get("a") is not None
    with engine.connect() as conn:
        client.cancel("a", conn=conn)
        conn.commit()
    assert client.get("a") is None


def order(engine):
    base = automap.automap_base()
    base.prepare(autoload_with=engine)
    return base.classes.orders(id=17)


def test_sessions_and_connections_that_cannot_be_joined(client, engine):
    """
    A failed session, a session without an engine, and a closed connection are refused.

    The errors are the same as for a connection of the database driver.
    """
    with engine.begin() as conn:
        conn.execute(INSERT)
    failed = orm.Session(engine)
    failed.add(order(engine))
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        failed.flush()
    for session in (failed, orm.Session()):
        with session, pytest.raises(TransactionError, match=r"conn cannot be used .*: pass one that is open"):
            client.set("a", conn=session, **LATER)
    with pytest.raises(TransactionError, match=r"conn cannot be used .*closed"):
        client.set("a", conn=conn, **LATER)
    assert client.get("a") is None


def test_an_engine_that_commits_each_statement_is_refused(client, engine):
    """
    An engine that commits each statement is refused, because it has no transaction to join.
    """
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn,
        pytest.raises(TransactionError, match="commits each statement at once"),
    ):
        client.set("a", conn=conn, **LATER)


def test_async_sessions_on_postgres(postgres, database):
    """
    An AsyncScheduler joins an AsyncSession or an AsyncConnection.

    A Scheduler raises an error for both.
    """
    pytest.importorskip("greenlet", reason="greenlet, which SQLAlchemy needs for asyncio, is not installed")
    asyncio_orm = import_module("sqlalchemy.ext.asyncio")
    url = postgres.url(database)

    async def run() -> None:
        engine = asyncio_orm.create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        scheduler = AsyncScheduler(url)
        await scheduler.get("opened")
        async with asyncio_orm.AsyncSession(engine) as session:
            await scheduler.set("a", conn=session, **LATER)
            assert await scheduler.get("a") is None
            await session.commit()
            assert await scheduler.get("a") is not None
            await scheduler.cancel("a", conn=session)
            await session.rollback()
        async with engine.connect() as conn:
            await scheduler.set("b", conn=conn, **LATER)
            await conn.commit()
        assert [job.key for job in (await scheduler.list()).jobs] == ["a", "b"]
        with closing(Scheduler(url)) as blocking, pytest.raises(TransactionError, match="pass it to AsyncScheduler"):
            blocking.set("c", conn=session, **LATER)
        await scheduler.stop()
        await engine.dispose()

    asyncio.run(run())


def test_a_session_on_aiosqlite_is_refused(tmp_path):
    """
    An async session on aiosqlite is refused, because its connection belongs to another thread.

    The error says what to pass instead.
    """
    pytest.importorskip("greenlet", reason="greenlet, which SQLAlchemy needs for asyncio, is not installed")
    asyncio_orm = import_module("sqlalchemy.ext.asyncio")
    pytest.importorskip("aiosqlite", reason="aiosqlite is not installed: pip install aiosqlite")

    async def run() -> None:
        engine = asyncio_orm.create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}")
        scheduler = AsyncScheduler(f"sqlite:///{tmp_path / 'app.db'}")
        async with asyncio_orm.AsyncSession(engine) as session:
            with pytest.raises(TransactionError, match="is on aiosqlite"):
                await scheduler.set("a", conn=session, **LATER)
        await scheduler.stop()
        await engine.dispose()

    asyncio.run(run())


DJANGO = """
    import sys
    import django
    from django.conf import settings

    url, engine, name = sys.argv[1:]
    options = {"ENGINE": "django.db.backends." + engine, "NAME": name}
    if engine == "postgresql":
        import psycopg
        of = psycopg.conninfo.conninfo_to_dict(url)
        options |= {"NAME": of["dbname"], "USER": of.get("user", ""), "HOST": of["host"], "PORT": of.get("port", "")}
    settings.configure(DATABASES={"default": options})
    django.setup()
    from django.db import connection, connections, transaction
    from tickwheel.scheduler import Scheduler, TransactionError

    scheduler = Scheduler(url)
    scheduler.get("opened")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders VALUES (1)")
        scheduler.set("a", delay=60, handler="h", conn=connection)
        assert scheduler.get("a") is None
    assert scheduler.get("a") is not None
    try:
        with transaction.atomic():
            scheduler.cancel("a", conn=connections["default"])
            raise KeyError
    except KeyError:
        pass
    assert scheduler.get("a") is not None

    def refused(conn=None):
        try:
            scheduler.set("b", delay=60, handler="h", conn=conn)
        except TransactionError as error:
            print(error)

    refused(connection)
    with transaction.atomic():
        if engine == "sqlite3":
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO orders VALUES (2)")
            refused()
        transaction.set_rollback(True)
        refused(connection)
    scheduler.set("c", delay=60, handler="h")
    scheduler.stop()
"""


@pytest.mark.parametrize("engine", ["sqlite3", "postgresql"])
def test_django(request, tmp_path, engine):
    """
    Within `atomic` the write joins Django's connection.

    So it does not wait for a SQLite file that this connection has locked.
    """
    pytest.importorskip("django", reason="Django is not installed: pip install django")
    path = tmp_path / "app.db"
    url = f"sqlite:///{path}"
    if engine == "postgresql":
        url = request.getfixturevalue("postgres_url")
    command = [sys.executable, "-P", "-c", textwrap.dedent(DJANGO), url, engine, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    missing = (
        f"conn is missing within a transaction of Django's on {str(path)!r}, whose end this write would wait for: "
        "pass conn=connections['default'] if it takes that, or call it after the commit, "
        "as with transaction.on_commit()"
    )
    assert done.stdout.splitlines() == [
        "conn commits each statement at once: call it within transaction.atomic()",
        *([missing] if engine == "sqlite3" else []),
        "conn has a transaction that has failed: roll it back first",
    ]


def test_a_django_that_is_only_imported(tmp_path):
    """
    If Django is imported but has no settings, a job is set as if Django were not imported.
    """
    program = """
        import django.db

        from tickwheel.scheduler import Scheduler

        print(Scheduler("sqlite:///jobs.db").set("k", delay=60, target="log").outcome)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("created\n", 0), done.stderr
