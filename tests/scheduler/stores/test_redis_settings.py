"""
The Redis store with different URLs, permissions and server settings.
"""

from __future__ import annotations

import itertools
import logging
import re

import pytest
from writes import set_one

from tickwheel.jobs.errors import StoreError
from tickwheel.stores import open_store
from tickwheel.stores.redis._server import loss_window
from tickwheel.testing.store_suite._base import changes_of


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://127.0.0.1:1/x", "names the database 'x': write its number"),
        ("redis://127.0.0.1:port/0", "cannot be understood .*: write redis://"),
        ("redis://127.0.0.1:1/0?lease_s=0", r"lease_s is '0' in .*: write a whole number in 1\.\.3600"),
        ("redis://127.0.0.1:1/0?shards=many", "shards is 'many' in .*: write a whole number in 0..256"),
        ("redis://127.0.0.1:1/0?decode_responses=1", "has the option 'decode_responses': known are: shards, lease_s"),
        ("redis://127.0.0.1:1/0?prefix=", "prefix is '' in .*: write some printable characters without braces"),
        ("redis://127.0.0.1:1/0?prefix={a}", "prefix is '{a}'"),
        ("unix:///nowhere/socket?db=x", "names the database 'x'"),
        ("unix:///nowhere/socket", "the connection failed"),
    ],
)
def test_wrong_urls(url, message):
    """
    The error for a wrong URL names each fault.
    """
    with pytest.raises(StoreError, match=message):
        open_store(url)


@pytest.fixture(scope="module")
def guarded(make_redis):
    """
    Return a server with a password.
    """
    return make_redis("--requirepass", "right")


@pytest.mark.parametrize(
    ("account", "message"),
    [
        ("guarded:hush-hush@", "the server refuses this user"),
        (":hush-hush@", "the server refuses this user"),
        ("", "the server refuses this user"),
    ],
)
def test_wrong_password(guarded, account, message):
    """
    A wrong or missing password is reported but not shown, and the connection is not retried.
    """
    with pytest.raises(StoreError, match=message) as caught:
        open_store(guarded.url("", account))
    assert not caught.value.is_transient
    assert "hush" not in str(caught.value)
    assert account == "" or ":***@" in str(caught.value)
    open_store(guarded.url("", ":right@")).close()


def test_no_such_database(redis_server):
    """
    If the server does not have the database, the error names it.
    """
    with pytest.raises(StoreError, match=r"there is no such database .*: name another") as caught:
        open_store(f"redis://127.0.0.1:{redis_server.port}/99")
    assert not caught.value.is_transient


def test_settings_may_not_be_read(make_redis):
    """
    A user who may not read the server's settings can use the store.

    The store then assumes the settings with which most writes could be lost.
    """
    server = make_redis("--appendonly", "yes")
    server.execute("ACL", "SETUSER", "plain", "on", ">pw", "~*", "&*", "+@all", "-config", "-info")
    store = open_store(server.url("", "plain:pw@"))
    assert "may not read appendfsync" in store.abilities.loss_window
    assert set_one(store).key == "key"
    store.close()


def test_rights_are_checked_first(make_redis):
    """
    If the user lacks the right to one command, the store refuses to open, because writes could be done in part.
    """
    server = make_redis()
    server.execute("ACL", "SETUSER", "half", "on", ">pw", "~*", "&*", "+@all", "-zrem")
    with pytest.raises(StoreError, match=r"the server refuses this user a command .*user_script") as caught:
        open_store(server.url("", "half:pw@"))
    assert not caught.value.is_transient
    server.execute("ACL", "SETUSER", "silent", "on", ">pw", "~*", "resetchannels", "+@all")
    store = open_store(server.url("", "silent:pw@"))
    remedy = r"give it (.*), on (\S+) and (\S+), with \\ before \[ and \] in PREFIX$"
    rights, keys, channels = re.search(remedy, str(caught.value)).groups()
    places = [place.replace("PREFIX", r"x\[1\]") for place in (keys, channels)]
    server.execute("ACL", "SETUSER", "least", "on", ">pw", *rights.split(), *places)
    open_store(server.url("?prefix=x%5B1%5D", "least:pw@")).close()  # the remedy works
    owner = open_store(server.url())
    leases = owner.acquire("owner")
    assert set_one(store).key == "key"  # the store works without hints
    assert sum(len(changes_of(owner, lease.shard, lease.epoch, 10, 0).changed) for lease in leases) == 1
    for each in (store, owner):
        each.close()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_eviction_is_refused(make_redis, policy):
    """
    A server whose settings allow it to evict keys is refused, and the error names the remedy.
    """
    server = make_redis("--maxmemory-policy", policy)
    with pytest.raises(StoreError, match=f"has maxmemory-policy {policy}, .*: CONFIG SET maxmemory-policy noeviction"):
        open_store(server.url())
    server.execute("CONFIG", "SET", "maxmemory-policy", "noeviction")
    open_store(server.url()).close()


@pytest.mark.parametrize(
    ("settings", "loses", "words"),
    [
        (("--appendonly", "yes", "--appendfsync", "always"), False, ""),
        (("--appendonly", "yes", "--appendfsync", "everysec"), True, "or the server is killed while its disk is slow"),
        (("--appendonly", "yes", "--appendfsync", "no"), True, "not yet written to the disk"),
        (("--save", "60 1"), True, "since the last snapshot, when the server crashes: set appendonly yes"),
        ((), True, "everything, when the server stops: set appendonly yes"),
    ],
)
def test_writes_that_a_server_may_lose_are_reported(make_redis, caplog, settings, loses, words):
    """
    `loss_window` says which writes a server may lose.

    A scheduler that fires logs this as a warning.
    """
    server = make_redis(*settings)
    with caplog.at_level(logging.WARNING, "tickwheel.scheduler"):
        store = open_store(server.url())
        assert caplog.messages == []  # a client does not warn
        store.acquire("owner")
    assert (bool(store.abilities.loss_window), words in store.abilities.loss_window) == (loses, True)
    assert bool(caplog.messages) is loses
    assert all("may lose" in message for message in caplog.messages)
    store.close()
    server.stop()


def test_a_replica_may_lag_behind(make_redis, until):
    """
    Redis answers before it replicates.

    So a failover may lose writes, even writes that are on the primary's disk.
    """
    primary = make_redis("--appendonly", "yes", "--appendfsync", "always")
    replica = make_redis("--replicaof", f"127.0.0.1 {primary.port}")
    until(lambda: primary.execute("INFO", "replication")["connected_slaves"] == 1)
    store = open_store(primary.url())
    assert store.abilities.loss_window == "answered writes that the replica has not yet received when it takes over"
    store.close()
    for server in (replica, primary):
        server.stop()


def test_loss_window_of_any_settings():
    """
    Only a server that certainly syncs before each answer loses nothing.

    A server whose settings cannot be read may lose writes.
    """
    for aof, fsync, save in itertools.product(("yes", "no", None), ("always", "everysec", "no", None), ("", "60 1")):
        facts = {"appendonly": aof, "appendfsync": fsync, "save": save}
        window = loss_window({name: value for name, value in facts.items() if value is not None})
        assert (window == "") is (fsync == "always" and aof != "no"), facts


@pytest.mark.parametrize(
    ("connected", "replicas", "loses"), [(0, 0, ""), (1, 0, "the replica"), (1, 1, ""), (2, 1, "1 of 2")]
)
def test_loss_window_of_replicas(connected, replicas, loses):
    """
    If each write must reach all replicas, acknowledged writes survive the loss of the primary.

    Otherwise they may be lost.
    """
    facts = {"appendonly": "yes", "appendfsync": "always", "connected_slaves": str(connected)}
    window = loss_window(facts, replicas)
    assert (bool(window), loses in window) == (bool(loses), True)
