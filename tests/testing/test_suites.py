"""
The contract suites detect the faults for which their tests were written.
"""

from __future__ import annotations

import unittest

import pytest

from tickwheel.stores import MemoryStore
from tickwheel.stores.contract import Page
from tickwheel.testing.driver_suite import DriverSuite
from tickwheel.testing.engine_suite import EngineSuite
from tickwheel.testing.store_suite import StoreSuite, _open
from tickwheel.testing.target_suite import TargetSuite
from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels import HeapWheel, SingleWheel


class IgnoresCase(MemoryStore):
    """
    A store whose pages of keys leave out "a" after "A", because it ignores case.
    """

    def page(self, query):
        after = (query.cursor or "").lower()
        jobs = sorted((job for job in self._jobs.values() if job.key.lower() > after), key=lambda job: job.key.lower())
        return Page(tuple(jobs[: query.limit]), jobs[query.limit - 1].key if len(jobs) > query.limit else None)


class FreesForAnybody(MemoryStore):
    """
    A store that releases a lease even if the caller is not the owner.
    """

    def release(self, owner):
        self._owner = None


class ForgetsTheGone(MemoryStore):
    """
    A store that reports the highest generation of the existing jobs as the last generation.

    So the generation of a deleted job can be used again.
    """

    def last_generation(self):
        return max((job.generation for job in self._jobs.values()), default=0)


class RepeatsTheLast(MemoryStore):
    """
    A store whose pages of a history each begin with the last record of the previous page.
    """

    def history(self, key, before, limit):
        return super().history(key, None if before is None else before + 1, limit)


class LosesWakes(MemoryStore):
    """
    A store that forgets a wake-up that came before the wait.
    """

    def wait_for_change(self, timeout_s):
        self._woken.clear()
        return super().wait_for_change(timeout_s)


class NeverWaits(MemoryStore):
    """
    A store whose waits all return immediately, and report that nothing was written.
    """

    def wait_for_change(self, timeout_s):
        return False


class WakesForEver(MemoryStore):
    """
    A store whose first wake-up makes every later wait return immediately.
    """

    def wait_for_change(self, timeout_s):
        self._woken.wait(timeout_s)
        return False


class ClosesQuietly(MemoryStore):
    """
    A store that does not wake waiting calls when it is closed.
    """

    def close(self):
        self._is_open, self._owner = False, None


class OpensAgain(MemoryStore):
    """
    A store that is empty each time it is opened.
    """

    def open(self):
        self.__init__()
        super().open()


class RenewsForAnybody(MemoryStore):
    """
    A store that renews a lease even if the caller is not the owner.
    """

    def renew(self, owner):
        return super().renew(self._owner)


@pytest.mark.parametrize(
    ("store", "test"),
    [
        (IgnoresCase, "test_by_key"),
        (FreesForAnybody, "test_release_by_another"),
        (ForgetsTheGone, "test_last_generation"),
        (RepeatsTheLast, "test_newest_first_and_page_by_page"),
        (LosesWakes, "test_wake_ends_the_next_wait"),
        (NeverWaits, "test_a_wait_without_a_change_lasts"),
        (WakesForEver, "test_a_wait_without_a_change_lasts"),
        (ClosesQuietly, "test_close_ends_a_wait"),
        (OpensAgain, "test_open_twice"),
        (RenewsForAnybody, "test_renew_by_another"),
    ],
)
def test_a_faulty_store_fails(monkeypatch, store, test) -> None:
    """
    A store with a fault fails the test that was written for this fault.

    The failing test does not hang.
    """
    monkeypatch.setattr(_open, "PATIENCE_S", 0.05)
    suite = StoreSuite()
    suite.make_store = store
    with pytest.raises(AssertionError):
        getattr(suite, test)()


class GivesIdsAgain(HeapWheel):
    """
    A wheel whose ids start at 1 again after a drain.
    """

    def drain(self):
        drained = super().drain()
        self.__init__()
        return drained


class ForgetsMoves(HeapWheel):
    """
    A wheel that drains entries with equal deadlines in the order of their ids, even if one of them was moved.
    """

    def drain(self):
        return sorted(super().drain(), key=lambda entry: (entry.deadline, entry.id))


class GivesIdsOfTheExpired(HeapWheel):
    """
    A wheel that gives the ids of expired entries to later entries.
    """

    def __init__(self):
        super().__init__()
        self._free = []

    def insert(self, deadline, payload):
        """
        Insert the entry, under the id of an expired entry if there is one.
        """
        new = super().insert(deadline, payload)
        if not self._free:
            return new
        entry = self._entries.pop(new)
        entry.id = self._free.pop()
        self._entries[entry.id] = entry
        return entry.id

    def advance(self, now, limit=None):
        expired = super().advance(now, limit)
        self._free += [entry.id for entry in expired]
        return expired

    def check(self):
        """
        Report no fault.
        """


class KeepsArrivals(HeapWheel):
    """
    A wheel in which a moved entry fires in its original order, and not after the entries with the same deadline.
    """

    def reschedule(self, id, deadline):
        entry = self._entries.get(id)
        sequence = entry.sequence if entry is not None and type(deadline) is int and entry.deadline < deadline else None
        is_moved = super().reschedule(id, deadline)
        if sequence is not None:
            self._unfile(entry)
            entry.sequence = sequence
            self._file(entry)
        return is_moved


class CountsFromTheLast(SingleWheel):
    """
    A wheel that limits deadlines by the time of the last advance, even if an earlier advance reached a later time.
    """

    def advance(self, now, limit=None):
        expired = super().advance(now, limit)
        self._latest = now
        return expired


class LeavesTombstones(HeapWheel):
    """
    A wheel that keeps the id of each cancelled entry.
    """

    def __init__(self):
        super().__init__()
        self._tombstones = []

    def cancel(self, id):
        is_cancelled = super().cancel(id)
        self._tombstones += [id] * is_cancelled
        return is_cancelled


class TakesNothingForNone(HeapWheel):
    """
    A wheel that stores None in place of a payload that counts as false.
    """

    def insert(self, deadline, payload):
        """
        Insert *payload*, or None in its place if it counts as false.
        """
        return super().insert(deadline, payload or None)


@pytest.mark.parametrize(
    ("wheel", "test"),
    [
        (GivesIdsAgain, "test_ids_after_drain"),
        (ForgetsMoves, "test_drain_after_moves"),
        (GivesIdsOfTheExpired, "test_random_operations"),
        (KeepsArrivals, "test_random_operations"),
        (CountsFromTheLast, "test_random_operations"),
        (LeavesTombstones, "test_cancels_and_moves_leave_nothing_behind"),
        (TakesNothingForNone, "test_payloads_are_not_looked_at"),
    ],
)
def test_a_faulty_wheel_fails(wheel, test) -> None:
    """
    A wheel with a fault fails the test that was written for the fault.
    """
    suite = WheelSuite()
    suite.make_wheel = lambda _start: wheel()
    with pytest.raises(AssertionError):
        getattr(suite, test)()


@pytest.mark.parametrize("suite", [WheelSuite, StoreSuite, EngineSuite, DriverSuite, TargetSuite])
def test_unittest_collects_a_test_case(suite) -> None:
    """
    A suite itself is not collected by unittest.

    Every test of the suite is found in a TestCase that derives from it.
    """

    class Case(suite, unittest.TestCase):
        pass

    names = unittest.defaultTestLoader.getTestCaseNames(Case)
    assert names == [name for name in dir(suite) if name.startswith("test_")]
