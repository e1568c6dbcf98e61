"""
Every store truncates its clock to whole milliseconds, whether the clock is read by the client or by the server.
"""

from __future__ import annotations

import random
import re

import pytest

from tickwheel.stores import MemoryStore, open_store
from tickwheel.stores.postgres._queries import SQL
from tickwheel.stores.redis._scripts import SCRIPTS
from tickwheel.stores.sqlite import SqliteStore

READINGS = 100_000
EPOCH_US = 1_790_000_000_000_000
FRACTIONS = (0, 1, 499, 500, 501, 999)


def instants_us():
    """
    Return instants in microseconds.

    The first instants are close to the start, the middle or the end of a millisecond. The rest are random.
    """
    dice = random.Random(1)
    edges = [EPOCH_US + 1_000 * n + fraction for n in range(100) for fraction in FRACTIONS]
    return edges + [EPOCH_US + dice.randrange(10**12) for _ in range(READINGS - len(edges))]


class Readings:
    def __init__(self):
        self.us = 0

    def wall_ns(self):
        """
        Return the wall time in nanoseconds, as the last nanosecond of the microsecond `us`.
        """
        return self.us * 1000 + 999


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_clock_of_this_machine(kind, tmp_path):
    """
    A store that reads this machine's clock truncates the time to milliseconds.
    """
    clock = Readings()
    store = MemoryStore(clock) if kind == "memory" else SqliteStore(str(tmp_path / "jobs.db"), clock=clock)
    for clock.us in instants_us():
        assert store.now_ms() == clock.us // 1000


def test_clock_of_postgres(postgres):
    """
    Every statement that reads PostgreSQL's clock truncates the time to milliseconds.
    """
    text = "\n".join(SQL.values())
    readings = re.findall(r"[\w(]*extract\(.*?_timestamp\(\).*?::bigint", text)
    compared = text.count("query_start < clock_timestamp()")  # comparisons of two readings of the same clock
    assert len(readings) == text.count("_timestamp()") - compared > 0
    found = set(readings)
    assert len(found) == 2  # one expression for the clock, and one for the start of the statement
    values = ", ".join(f"({us})" for us in instants_us())
    for expression in found:
        ms = re.sub(r"\w+_timestamp\(\)", "'epoch'::timestamptz + us * interval '1 microsecond'", expression)
        query = f"SELECT count(*), count(*) FILTER (WHERE {ms} <> us / 1000) FROM (VALUES {values}) AS t (us)"  # noqa: S608 - ours
        assert postgres.execute(query) == [(READINGS, 0)]


def test_clock_of_redis(redis_server):
    """
    The scripts of the Redis store truncate the time of Redis' clock to milliseconds.
    """
    text = SCRIPTS["read"].text.decode()
    now_ms = text[text.index("local function now_ms()") :].partition("\nend\n")[0] + "\nend"
    stand_in = "local at = 1; local redis = {call = function() return {ARGV[at], ARGV[at + 1]} end}"
    loop = """
        local wrong = 0
        for i = 1, #ARGV, 2 do
            at = i
            local us = tonumber(ARGV[i + 1])
            if now_ms() ~= ARGV[i] * 1000 + (us - us % 1000) / 1000 then
                wrong = wrong + 1
            end
        end
        return {#ARGV / 2, wrong}
    """
    instants, wrong, read = instants_us(), 0, 0
    for first in range(0, READINGS, 2_000):
        parts = [str(part) for us in instants[first : first + 2_000] for part in divmod(us, 1_000_000)]
        here, there = redis_server.execute("EVAL", f"{stand_in}\n{now_ms}\n{loop}", 0, *parts)
        read, wrong = read + here, wrong + there
    assert (read, wrong) == (READINGS, 0)


def test_clock_that_the_client_reads(redis_server, monkeypatch):
    """
    If the client reads the clock of Redis, the time is also truncated to milliseconds.
    """
    store = open_store(redis_server.url("?prefix=clock"))
    for us in instants_us()[:600]:
        time = [str(part).encode() for part in divmod(us, 1_000_000)]
        monkeypatch.setattr(store._connections, "call", lambda _, time=time: time)
        assert store.now_ms() == us // 1000
    monkeypatch.undo()
    store.close()
