"""
A node's figures by minute: their meaning, their cost and their size.
"""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from sqlite_files import noted_connections, statements_of

from tickwheel.cli.app import cli
from tickwheel.engine._records import LaneCounts
from tickwheel.engine._verdict import Ending
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.minutes import (
    BUCKETS,
    LANES_MAX,
    MINUTE_MS,
    OTHER_LANES,
    QUARTER_MS,
    LaneMinute,
    Minute,
    bucket_of,
    kept_from,
    merged,
    of_text,
    to_text,
)
from tickwheel.observe.events import JobDied, JobSucceeded
from tickwheel.scheduler import RetryPolicy, SetRequest
from tickwheel.stores import MemoryStore
from tickwheel.testing.faulty_store import FaultyStore


def lane(name, fired=1, **fields):
    """
    Return the figures of a lane.
    """
    counts = [0] * BUCKETS
    counts[3] = fired
    return LaneMinute(name, fired, lateness=tuple(counts), **fields)


def wait_for(record, kind, count):
    """
    Wait for *count* events of *kind* in *record*.
    """
    record.wait_for(lambda: sum(isinstance(each, kind) for each in record.items) >= count)


@pytest.mark.parametrize(
    ("late_ms", "bucket"),
    [(-5.0, 0), (0.0, 0), (3.99, 0), (4.0, 1), (7.9, 1), (8.0, 2), (4095.9, 10), (4096.0, 11), (1e12, 11)],
)
def test_bucket(late_ms, bucket):
    """
    Each bucket of the lateness of attempts is twice as wide as the one before it.
    """
    assert bucket_of(late_ms) == bucket


def test_row_is_bounded():
    """
    The figures of a minute list the 50 busiest lanes by name, or fewer if the names are long.

    The lanes that are not listed are counted together.
    """
    for size in (10, 60, 255, 2_000):
        lanes = [lane(f"handler:{number:0{size}}", fired=number + 1, wait_ms=1e9) for number in range(70)]
        minute = Minute("node", 0, lanes=tuple(lanes))
        text = to_text(minute)
        assert len(text.encode()) <= 8_192
        read = of_text("node", 0, MINUTE_MS, text)
        assert len(read.lanes) <= LANES_MAX + 1
        assert read.lanes[-1].lane == OTHER_LANES
        assert sum(each.fired for each in read.lanes) == sum(each.fired for each in lanes)
        assert sum(sum(each.lateness) for each in read.lanes) == sum(each.fired for each in lanes)
        if size == 10:
            assert [each.lane for each in read.lanes[:LANES_MAX]] == [each.lane for each in reversed(lanes[20:])]
            assert json.loads(text)[3][0][1] == 70


def test_sum():
    """
    In a sum of figures, counts and times are added up.

    The sum has the largest of the maxima, and the latest number of overdue jobs.
    """
    first = Minute("a", 0, MINUTE_MS, 2, 5.0, 4.0, (lane("x", overdue=9, late_max_ms=3.0), lane("y")))
    second = Minute("a", MINUTE_MS, MINUTE_MS, 3, 6.0, 2.0, (lane("x", 4, overdue=1, took_ms=7.0, late_max_ms=2.0),))
    both = merged((first, second), 0, QUARTER_MS, "a")
    assert (both.commits, both.commit_ms, both.commit_max_ms) == (5, 11.0, 4.0)
    x, y = both.lanes
    assert (x.lane, x.fired, x.overdue, x.took_ms, x.late_max_ms, x.lateness[3]) == ("x", 5, 1, 7.0, 3.0, 5)
    assert y == lane("y")


def test_overdue_jobs_of_nodes():
    """
    The overdue jobs of the last minute are added up over all nodes.

    A lane without figures in that minute has no overdue jobs.
    """
    before = Minute("a", 0, lanes=(lane("x", overdue=9), lane("y", overdue=7)))
    end = [Minute(owner, MINUTE_MS, lanes=(lane("x", overdue=number),)) for owner, number in (("a", 2), ("b", 3))]
    assert [(each.lane, each.overdue) for each in merged((before, *end), 0, QUARTER_MS).lanes] == [("x", 5), ("y", 0)]


def test_how_long_figures_are_kept():
    """
    Figures by minute are kept for four hours. Figures by quarter of an hour are kept for 48 hours.

    Both periods begin at the start of a quarter of an hour.
    """
    now = 500 * QUARTER_MS + 7
    assert kept_from(now) == (484 * QUARTER_MS, 308 * QUARTER_MS)


@pytest.fixture
def store():
    """
    Return a store that counts its calls.
    """
    return FaultyStore(MemoryStore())


@pytest.fixture
def scheduler(store, make, engines):  # noqa: ARG001  it notes the engine
    """
    Return a started scheduler that owns *store*, with two handlers.
    """
    made = make(store)

    @made.handler("fine")
    def fine(_payload):
        pass

    @made.handler("broken", retry=RetryPolicy(attempts=1))
    def broken(_payload):
        message = "no"
        raise ValueError(message)

    return made.start()


def test_counted(scheduler, store, events, engines):
    """
    The figures of a minute count the attempts, failures and deaths of each lane, their lateness, and the commits.
    """
    ended = events(scheduler)
    requests = [SetRequest(str(number), delay=0, handler="broken" if number < 3 else "fine") for number in range(40)]
    scheduler.set_many(requests)
    wait_for(ended, JobSucceeded, 37)
    wait_for(ended, JobDied, 3)
    engines[0].minutes.keep()
    (minute,) = store.minutes(0, 2**62, MINUTE_MS)
    (quarter,) = store.minutes(0, 2**62, QUARTER_MS)
    lanes = {each.lane: each for each in minute.lanes}
    assert set(lanes) == {"handler:fine", "handler:broken"}
    assert (lanes["handler:fine"].fired, lanes["handler:fine"].failed, lanes["handler:fine"].dead) == (37, 0, 0)
    assert (lanes["handler:broken"].fired, lanes["handler:broken"].failed, lanes["handler:broken"].dead) == (3, 3, 3)
    assert all(sum(each.lateness) == each.fired for each in minute.lanes)
    assert minute.commits >= 3
    assert minute.commit_ms >= minute.commit_max_ms / 1.2
    assert (quarter.lanes, quarter.commits, quarter.owner) == (minute.lanes, minute.commits, minute.owner)


def test_one_statement(scheduler, store, events, engines):
    """
    The figures of a minute are written by one statement, however many jobs ended in that minute.

    A minute without jobs writes nothing.
    """
    ended = events(scheduler)
    keeper = engines[0].minutes
    for count in (1, 499):
        scheduler.set_many([SetRequest(f"{count}/{number}", delay=0, handler="fine") for number in range(count)])
        wait_for(ended, JobSucceeded, 1 if count == 1 else 500)
        keeper.keep()
    keeper.keep()
    assert store.calls.count("keep_minutes") == 2


def test_one_statement_on_sqlite(file_url, make, events, engines):
    """
    On SQLite, one statement writes the figures of both a minute and its quarter of an hour.
    """
    with noted_connections() as connections:
        made = make(file_url)
        made.handler("h")(print)
        ended = events(made.start())
    made.set("k", delay=0, handler="h")
    ended.of(JobSucceeded)
    statements = statements_of(connections, engines[0].minutes.keep)
    assert sum("tickwheel_minute" in each for each in statements) == 1
    assert len(made.minutes(0)) == 1


def test_twice_in_a_minute(scheduler, store, events, engines):
    """
    If the figures of a minute are written twice, the second call adds its figures to the rows of the first.
    """
    ended = events(scheduler)
    keeper = engines[0].minutes
    for count in (1, 2, 3):
        scheduler.set(str(count), delay=0, handler="fine")
        wait_for(ended, JobSucceeded, count)
        at, keeper._at = keeper._at, 7 * QUARTER_MS
        keeper.keep()
    for span in (MINUTE_MS, QUARTER_MS):
        (row,) = store.minutes(0, at, span)
        assert (row.at, [each.fired for each in row.lanes]) == (7 * QUARTER_MS, [3])


def test_an_outage_of_the_store(scheduler, store, events, engines):
    """
    Rows that the store could not write are written once by the next call.
    """
    ended = events(scheduler)
    keeper = engines[0].minutes
    store.fail("keep_minutes", 2)
    for number in range(3):
        scheduler.set(str(number), delay=0, handler="fine")
        wait_for(ended, JobSucceeded, number + 1)
        keeper._at = number * MINUTE_MS
        if number == 2:
            keeper.keep()
        else:
            with pytest.raises(StoreError):
                keeper.keep()
    assert [(each.at, each.lanes[0].fired) for each in store.minutes(0, QUARTER_MS, MINUTE_MS)] == [
        (0, 1),
        (MINUTE_MS, 1),
        (2 * MINUTE_MS, 1),
    ]
    assert [each.lanes[0].fired for each in store.minutes(0, QUARTER_MS, QUARTER_MS)] == [3]


def test_many_addresses_of_a_receiver():
    """
    The attempts for one receiver count as one lane, however many addresses the receiver has.

    Lanes after the first 1,000 are counted together.
    """
    counts = LaneCounts(threading.Lock(), lane_of)
    for number in range(5_000):
        counts.add(Ending.SUCCEEDED, [attempt("webhook", f"https://example.com/{number}")], [0.0])
    (one,) = counts.take()
    assert (one.lane, one.fired, sum(one.lateness)) == ("webhook:https://example.com", 5_000, 5_000)
    for number in range(2_500):
        counts.add(Ending.SUCCEEDED, [attempt("handler", f"{number}")], [0.0])
    lanes = counts.take()
    assert (len(lanes) <= 1_001, lanes[-1].lane, sum(each.fired for each in lanes)) == (True, OTHER_LANES, 2_500)
    assert counts.take() == ()


def attempt(target, handler):
    """
    Return an attempt that started when it was due.
    """
    job = SimpleNamespace(target=target, handler=handler, due_at=5)
    return SimpleNamespace(job=job, fired_at=5.0, ready_at=5.0, ran_ms=1.0)


def test_restart(file_url, make, events):
    """
    A stop writes the figures of the current minute.

    The next process and the command `tickwheel report` can read them.
    """
    first = make(file_url)
    first.handler("h")(print)
    ended = events(first.start())
    first.set("k", delay=0, handler="h")
    ended.of(JobSucceeded)
    first.stop()
    (minute,) = make(file_url).minutes(0)
    assert [(each.lane, each.fired) for each in minute.lanes] == [("handler:h", 1)]
    result = CliRunner().invoke(cli, ["report", "--last", "48h", "--store", file_url])
    assert (result.exit_code, result.stdout.count("handler:h\t1\t0\t0")) == (0, 1)


def test_old_figures_are_read_by_quarter(store, make):
    """
    Figures older than four hours are read by quarter of an hour, newer figures by minute.

    No figure is read twice.
    """
    made = make(store)
    made.get("k")
    now = store.now_ms()
    edge, first = kept_from(now)
    for span in (MINUTE_MS, QUARTER_MS):
        store.keep_minutes(
            [Minute("n", at, span) for at in (first - span, first, edge - span, edge, edge + QUARTER_MS)]
        )
    found = made.minutes(0)
    assert [(each.at, each.span_ms) for each in found] == [
        (first, QUARTER_MS),
        (edge - QUARTER_MS, QUARTER_MS),
        (edge, MINUTE_MS),
        (edge + QUARTER_MS, MINUTE_MS),
    ]
    assert made.minutes(edge / 1000 + 30) == found[2:]
    assert made.minutes(edge / 1000 - 1, edge / 1000 + 1) == found[1:3]
