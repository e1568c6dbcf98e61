"""
A caller waits until a claimed attempt is withdrawn.

In the tests, the store fails, or the owner of the attempt does not answer.
"""

from __future__ import annotations

import itertools
import queue

import pytest

from tickwheel.host import withdrawal_requests as _withdrawal_requests
from tickwheel.host.runtime import Runtime
from tickwheel.host.withdrawal_requests import RETRY_S, WithdrawalRequests
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Answer, Cancel, Job, Outcome
from tickwheel.stores import MemoryStore

MET = Job("key", generation=7, due_at=0, attempt=1)
STEP_S = 0.25
"""Number of seconds by which each reading advances the clock."""


class Caller:
    """
    A caller whose cancel found a claimed attempt.

    Its answers are put into the queue *answers*.
    """

    writes, indexes = (Cancel("key"),), (0,)

    def __init__(self, answers):
        self.finish = answers.put

    def job(self, _index):
        """
        Return the job that the cancel found.
        """
        return MET


class Failing(MemoryStore):
    """
    A store that counts its reads, and raises *error* at the reads whose numbers are in *fails*.

    The store has one attempt, whose owner does not answer.
    """

    def __init__(self, error, fails):
        super().__init__()
        self.error, self.fails, self.looks = error, fails, 0

    def _look(self):
        self.looks += 1
        if self.looks in self.fails:
            raise self.error

    def attempts(self, jobs):
        """
        Report that no attempt has started, or raise the store's error.
        """
        self._look()
        return {job.generation: False for job in jobs}

    def request_withdrawal(self, jobs):
        del jobs
        return set()


class Deaf(Failing):
    """
    A store whose withdrawal requests (requests to stop a running job) can fail, as its reads can.
    """

    def request_withdrawal(self, jobs):
        del jobs
        self._look()
        return set()


@pytest.fixture
def runtime():
    """
    Return a runtime whose clock advances with each reading.
    """
    seconds = itertools.count(step=STEP_S)
    return Runtime(monotonic=lambda: next(seconds))


@pytest.fixture
def serve(runtime, monkeypatch):
    """
    Return a function that serves a caller on a store until the caller has its answer.

    The function returns this answer.
    """
    monkeypatch.setattr(_withdrawal_requests, "_PAUSE_MAX_S", 0.002)  # a minute of that clock passes in 240 readings

    def answer(store, resubmit=print):
        answers = queue.Queue()
        requests = WithdrawalRequests(store, resubmit, runtime)
        requests.add(Caller(answers))
        found = answers.get(timeout=60)
        requests.close()
        return found

    return answer


def passing():
    return StoreError("the slot moves", "try again", is_transient=True)


def test_a_store_that_fails(serve):
    """
    If every read of the store fails for longer than the writer retries, the caller gets the store's error.
    """
    store = Failing(passing(), range(1, 10_000))
    assert serve(store) is store.error
    assert RETRY_S / STEP_S - 1 <= store.looks <= RETRY_S / STEP_S + 2


def test_a_store_that_fails_for_good(serve):
    """
    A permanent error is raised to the caller at once.
    """
    store = Failing(StoreError("no rights", "see to them"), {1})
    assert serve(store) is store.error
    assert store.looks == 1


def test_an_owner_that_does_not_answer(serve):
    """
    If the store answers but the owner of the attempt does not, the store is polled for several lease lengths.

    Then the caller gets an error.
    """
    store = Failing(passing(), set(range(1, 10_000)) - set(range(0, 10_000, 10)))
    error = serve(store)
    assert error.is_transient
    assert "the owner of 'key' does not say whether it has started" in str(error)
    assert store.looks > 5 * RETRY_S / STEP_S


def test_owners_that_cannot_be_asked_to_stop(serve):
    """
    If the store cannot record requests to stop running jobs, the caller gets an error after a while.

    The time limit is the same as for requests to withdraw an attempt.
    """
    store = Deaf(passing(), range(1, 10_000))

    def stopping(_writes, done):
        done([Answer(Outcome.STOPPING, MET)])

    store.attempts = lambda jobs: {job.generation: True for job in jobs}
    assert serve(store, stopping) is store.error
    assert RETRY_S / STEP_S - 1 <= store.looks <= RETRY_S / STEP_S + 3
