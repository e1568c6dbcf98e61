"""
The writer of a partitioned store, while one of the partitions fails or hangs.
"""

from __future__ import annotations

import threading

import pytest

from tickwheel.host.partitioned_writer import PartitionedWriter
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Begin, Job, Outcome, Set
from tickwheel.stores import MemoryStore, Partitioned
from tickwheel.testing.faulty_store import FaultyStore

PATIENCE_S = 20.0


class Halves:
    """
    A store of two partitions. The second partition has the keys that begin with "b".
    """

    def __init__(self):
        self.partitions = [FaultyStore(MemoryStore()), FaultyStore(MemoryStore())]
        for each in self.partitions:
            each.open()

    def heard(self):
        """
        Report that both partitions may have changed.
        """
        return {0, 1}

    def partition_of(self, key):
        """
        Return the number of the partition of *key*.
        """
        return int(key.startswith("b"))


@pytest.fixture
def halves():
    """
    Return two partitions that can be held and made to fail.
    """
    halves = Halves()
    assert isinstance(halves, Partitioned)
    return halves


@pytest.fixture
def writer(halves):
    """
    Return a writer for both partitions, without retries.
    """
    writer = PartitionedWriter(halves, Runtime(), retry_s=0.0)
    yield writer
    assert writer.close(PATIENCE_S)


class Result:
    """
    The result of a posted write, once there is one.
    """

    def __init__(self):
        self._is_there = threading.Event()
        self.value = None

    def __call__(self, value):
        """
        Store the result.
        """
        self.value = value
        self._is_there.set()

    def wait(self):
        assert self._is_there.wait(PATIENCE_S)
        return self.value


def sets(*keys):
    """
    Return one set request for each of *keys*.
    """
    return [Set(Job(key, 0, 5)) for key in keys]


def test_answers_are_in_order(writer):
    """
    The answers of both partitions are in the order of the writes.

    The writer counts the commits and the writes of both partitions.
    """
    answers = writer.submit_many(sets("a1", "b1", "a2", "b2")).result(PATIENCE_S)
    assert [answer.job.key for answer in answers] == ["a1", "b1", "a2", "b2"]
    assert writer.submit(*sets("b3")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert writer.submit_many([]).result(PATIENCE_S) == []
    assert writer.submit_many(sets("a1", "a3")).result(PATIENCE_S)[0].outcome is Outcome.REPLACED
    assert (writer.stats().commits, writer.stats().writes) == (4, 7)
    assert writer.waiting == 0


def test_one_partition_does_not_wait_for_the_other(writer, halves):
    """
    While a commit in one partition hangs, the writes of the other partition are committed.
    """
    first, second = halves.partitions
    with first.held() as entered:
        hanging = writer.submit(*sets("a1"))
        assert entered()
        assert writer.submit(*sets("b1")).result(PATIENCE_S).outcome is Outcome.CREATED
        both = writer.submit_many(sets("a2", "b2"))
        assert second.get("b1") is not None
        assert not hanging.done()
    assert len(both.result(PATIENCE_S)) == 2
    assert hanging.result(PATIENCE_S).outcome is Outcome.CREATED


@pytest.mark.parametrize("failing", [0, 1])
def test_a_caller_gets_the_error(writer, halves, failing):
    """
    If one partition fails, a caller with writes in both partitions gets the error.

    The writes of the other partition take effect.
    """
    halves.partitions[failing].fail("apply")
    with pytest.raises(StoreError, match="apply failed: try again"):
        writer.submit_many(sets("a1", "b1")).result(PATIENCE_S)
    assert [halves.partitions[number].get(key) is None for number, key in enumerate(("a1", "b1"))] == [
        failing == 0,
        failing == 1,
    ]


def test_the_schedulers_own_writes(writer, halves):
    """
    The scheduler's own writes go to the partition that gave out their epoch.

    If one partition fails, the writes to the other succeed.
    """
    jobs = [answer.job for answer in writer.submit_many(sets("a1", "b1", "a2")).result(PATIENCE_S)]
    for number, each in enumerate(halves.partitions):
        while each.acquire("owner")[0].epoch < 2 + number:
            each.release("owner")
    halves.partitions[1].fail("apply")
    first, second = Result(), Result()
    writer.post([Begin(job, 2) for job in (jobs[0], jobs[2])], first)
    writer.post([Begin(jobs[1], 3)], second)
    assert [answer.outcome for answer in first.wait()] == [Outcome.BEGUN] * 2
    assert isinstance(second.wait(), StoreError)
    again = Result()
    writer.post([Begin(jobs[1], 3)], again)
    assert [answer.outcome for answer in again.wait()] == [Outcome.BEGUN]


def test_no_room_in_one_partition(halves):
    """
    If too many writes wait in one partition, a caller with writes in both partitions gets an error.

    The caller's writes to the other partition succeed.
    """
    writer = PartitionedWriter(halves, Runtime(), retry_s=0.0, waiting_max=2, batch_max=1)
    first, second = halves.partitions
    with first.held() as entered:
        hanging = [writer.submit(*sets("a0"))]
        assert entered()
        hanging.append(writer.submit_many(sets(*(f"a{number}" for number in range(1, 1_001)))))
        both = writer.submit_many(sets("a1", "b1"), timeout_s=0)
        with pytest.raises(StoreError, match=r"1000 writes wait for .*, and 1000 may"):
            writer.submit(*sets("a1"), timeout_s=0)
    with pytest.raises(StoreError, match="1000 writes wait for"):
        both.result(PATIENCE_S)
    for promise in hanging:
        promise.result(PATIENCE_S)
    assert second.get("b1") is not None
    assert writer.close(PATIENCE_S)
