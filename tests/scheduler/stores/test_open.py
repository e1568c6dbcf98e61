"""
The URLs that open a store, and the errors for wrong URLs.
"""

from __future__ import annotations

import pytest

from tickwheel.jobs.errors import StoreError
from tickwheel.scheduler import Scheduler
from tickwheel.stores import MemoryStore, masked, open_store
from tickwheel.stores.sqlite import SqliteStore


def test_memory():
    """
    The URL memory:// opens a store in memory.
    """
    store = open_store("memory://")
    assert isinstance(store, MemoryStore)
    assert store.count()["pending"] == 0
    store.close()


def test_a_class_of_the_user(tmp_path, monkeypatch):
    """
    A URL can name a store class of the user by module and name.

    An error raised by that module is passed on unchanged.
    """
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "half_a_store.py").write_text("class Half:\n def __init__(self, clock): self.url = ''\n")
    with pytest.raises(StoreError, match=r"is not a store: Half lacks abilities, .*: derive it from"):
        open_store("half_a_store:Half")
    (tmp_path / "broken_store.py").write_text("import nosuch_library\n")
    store = open_store("tickwheel.stores:MemoryStore")
    assert type(store) is MemoryStore
    store.close()
    with pytest.raises(ModuleNotFoundError, match="nosuch_library"):
        open_store("broken_store:Store")


def test_sqlite_paths(tmp_path, monkeypatch):
    """
    In a SQLite URL, three slashes begin a relative path and four slashes an absolute path.

    %-escapes in the path are not decoded.
    """
    monkeypatch.chdir(tmp_path)
    for url, path in (
        ("sqlite:///jobs.db", tmp_path / "jobs.db"),
        (f"sqlite:///{tmp_path}/more.db", tmp_path / "more.db"),
        ("SQLite:///my jobs%20#1.db", tmp_path / "my jobs%20#1.db"),
    ):
        store = open_store(url)
        assert isinstance(store, SqliteStore)
        assert path.exists()
        assert store.url == f"sqlite:///{url.partition('///')[2]}"
        store.close()


def test_sqlite_options(tmp_path):
    """
    The option `synchronous` of a URL selects the faster mode of SQLite.
    """
    for mode, loses in (("full", False), ("normal", True), ("NORMAL", True)):
        store = open_store(f"sqlite:///{tmp_path}/{mode}.db?synchronous={mode}")
        assert bool(store.abilities.loss_window) is loses
        store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://h/db", "no store is named by 'mysql://h/db': begin with "),
        ("jobs.db", "no store is named by 'jobs.db': begin with "),
        ("", "no store is named by ''"),
        ("sqlite://jobs.db", "names no file: write sqlite:///relative.db or sqlite:////absolute.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:////", "names no file"),
        ("sqlite:///a\0b", "names no file"),
        (f"sqlite:///{'n' * 300}", "cannot be reached (.*): name a file in a folder"),
        ("redis://127.0.0.1:1/0?ssl_ca_certs=/x", "has the option 'ssl_ca_certs': known are: "),
        ("sqlite:///:memory:", "write memory://"),
        ("sqlite:///a.db?mode=ro", "has the option 'mode': known are: synchronous"),
        ("sqlite:///a.db?synchronous=off", "synchronous is 'off' in .*: write full or normal"),
        ("memory://jobs", "has a path, and a store in memory has none: write memory://"),
        ("memory://?x=1", "has the option 'x': known are: none"),
        ("nosuch.module:Store", "'nosuch.module:Store' names no module: see that it can be imported from here"),
        ("tickwheel.nosuch:Store", "'tickwheel.nosuch:Store' names no module"),
        ("tickwheel.stores:NoStore", "has no attribute 'NoStore': name a class or function of the module"),
        ("tickwheel.stores:masked?path=x", r"masked cannot be called with these options \(.*: write \?name=value for"),
    ],
)
def test_wrong_urls(url, message, tmp_path, monkeypatch):
    """
    If a URL does not name a store, the error states the fault and the remedy.

    No file is created.
    """
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=message):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "nosuch://user:secret@host/db",
        "nosuch://user:sec:ret@host/db",
        "nosuch://user:sec@ret@host:5432/db?x=1",
        "nosuch://user:sec/ret@host/db",
        "nosuch://:secret@host/0",
        "nosuch://host/db?user=me&password=secret",
        "nosuch://host/db?PASSWORD=sec@ret&x=y",
        "nosuch://host/db?sslpassword=secret",
        "nosuch://host/db?x=y&pass%77ord=secret",
        "nosuch://host/db?listen=postgresql%3A%2F%2Fu%3Asecret%40host",
        "nosuch://host/db?listen=%20postgresql://u:secret%40host",
        "nosuch.module:Store?api_token=secret&x=y",
        "nosuch.module:Store?server=redis%3A%2F%2Fu%3Asecret%40host",
        "nosuch.module:Store?server=redis%3A%2F%2Fhost%3Fpassword%3Dsecret",
    ],
)
def test_passwords_are_masked(url):
    """
    Neither an error nor a masked URL contains any part of a password, whatever its characters.
    """
    with pytest.raises(StoreError) as caught:
        open_store(url)
    for text in (str(caught.value), masked(url)):
        assert "***" in text
        assert "sec" not in text
        assert "ret" not in text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:sec%0ret@127.0.0.1:1/db",
        "postgresql://app:sec@ret@127.0.0.1:1/db",
        "postgresql://app:sec/ret@127.0.0.1:1/db",
        "postgresql://app:sec?ret@127.0.0.1:1/db",
        "postgresql://app:secret@[::1/db",
        "postgresql://app@127.0.0.1:1/db?listen=postgresql://app:sec%252ret%40host/db",
        "redis://app:sec/ret@127.0.0.1:1/0",
        "redis://app:sec?ret@127.0.0.1:1/0",
        "redis://app:sec#ret@127.0.0.1:1/0",
        "redis+cluster://app:sec/ret@127.0.0.1:1",
    ],
)
def test_passwords_that_are_not_escaped(url):
    """
    A URL that the driver would misread is refused before the driver sees it.

    The driver's message could show a part of the password.
    """
    with pytest.raises(StoreError, match=r"cannot be understood: %-escape the user's name and the password") as caught:
        open_store(url)
    assert "sec" not in str(caught.value)
    assert "ret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_escaped_passwords_are_understood(scheme):
    """
    A password with %-escaped characters is decoded before it reaches the driver.
    """
    with pytest.raises(StoreError, match="the connection failed"):
        open_store(f"{scheme}://app:%40%2F%3F%23%25%5B@127.0.0.1:1/0")


def test_nothing_is_masked_without_a_password():
    """
    A URL without a password is shown unchanged.
    """
    for url in (
        "sqlite:////var/lib/jobs.db",
        "memory://",
        "nosuch://user@host:5432/db",
        "my.module:Store?path=%2Fvar%2Fx&keys=3",
    ):
        assert masked(url) == url


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_a_store_is_opened_once(kind, request, tmp_path):
    """
    A scheduler that is given an open store uses the connections of this store.
    """
    if kind == "postgres":
        url = request.getfixturevalue("postgres_url")
    elif kind == "redis":
        url = request.getfixturevalue("redis_server").url("?prefix=opened")
    else:
        url = f"sqlite:///{tmp_path}/jobs.db"
    store = open_store(url)
    connections = store._connections
    with Scheduler(store) as scheduler:
        assert scheduler.set("key", delay=60, target="log").outcome == "created"
        assert store._connections is connections
        assert scheduler.cancel("key").outcome == "cancelled"
