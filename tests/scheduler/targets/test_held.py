"""
Targets that decide when the attempts of their jobs start and end.
"""

from __future__ import annotations

import threading

import pytest

from tickwheel.errors import ClosedError
from tickwheel.observe.events import JobDied, JobFailed, JobSucceeded
from tickwheel.scheduler import RetryPolicy, SetRequest
from tickwheel.stores import make_store
from tickwheel.targets import Call
from tickwheel.testing.faulty_store import FaultyStore

AT_ONCE = RetryPolicy(attempts=2, base_ms=0, jitter=0)


class Trips:
    """
    A target that starts and ends some jobs of a batch, and then raises.
    """

    options = "none"
    example = "trips://"

    def __init__(self, ended):
        self._ended = ended
        self.answers = []

    def check(self, handler):
        pass

    def resolve(self, handler):
        """
        Return a call in which the target starts and ends each job of a batch.
        """
        return Call(self._hold, is_held=True)

    async def close(self):
        """
        Do nothing: there is nothing to release.
        """

    def _hold(self, batch):
        for firing, end in batch:
            if firing.job.key in self._ended:
                end.start()()
                self.answers.append(end())
        message = "full"
        raise OverflowError(message)


@pytest.mark.parametrize("ended", [(), ("a",)])
def test_a_target_that_raises(make, events, ended):
    """
    If a target raises an exception, the jobs that the target has not yet ended fail with this error.

    The ended jobs keep their outcomes.
    """
    target = Trips(ended)
    scheduler = make("memory://", targets={"trips": target, "trips-too": Trips(())})
    told = events(scheduler)
    scheduler.handler("h")(print)
    requests = [SetRequest(key, delay=0, target="trips", handler="x", retry=AT_ONCE) for key in "ab"]
    requests.append(SetRequest("c", delay=0, target="trips-too", handler="x", retry=AT_ONCE))
    scheduler.set_many([*requests, SetRequest("d", delay=0, handler="h")])
    scheduler.start()
    succeeded = {"d", *ended}
    failed = {"a", "b", "c"} - succeeded
    assert {told.of(JobDied, key)[0].error for key in failed} == {"OverflowError: full"}
    assert {told.of(JobFailed, key)[0].attempt for key in failed} == {1}
    assert all(told.of(JobSucceeded, key) for key in succeeded)
    assert all(target.answers)
    assert len(told.of(JobDied)) == len(failed)


def test_an_acknowledgement_that_a_stop_overtakes(make):
    """
    If the scheduler stops while a worker waits for an acknowledgement that cannot be written, the worker gets an error.
    """
    store = FaultyStore(make_store("memory://"))
    scheduler = make(store).start()
    scheduler.set("k", delay=0, target="pull", handler="q")
    (lease,) = scheduler.lease("q", wait=60)
    store.fail("apply", 1_000, is_transient=False)
    answers = []

    def acknowledge():
        try:
            scheduler.ack(lease.fire_id)
        except Exception as error:  # noqa: BLE001  it is what the test looks at
            answers.append(error)

    failed = threading.Semaphore(0)
    scheduler.subscribe(lambda _event: failed.release(), routine=False)
    worker = threading.Thread(target=acknowledge)
    worker.start()
    for _ in range(2):  # two failed writes: of a batch, and of a single end; the next follows some seconds later
        assert failed.acquire(timeout=60)
    scheduler.stop(1)
    worker.join(60)
    assert [type(error) for error in answers] == [ClosedError]


def test_a_target_that_cannot_be_closed(make, caplog):
    """
    If closing a target fails, the error is logged.

    The other targets are closed, and the scheduler stops.
    """
    closed = []

    class Stays(Trips):
        async def close(self):
            closed.append(self)
            message = "it stays"
            raise OSError(message)

    scheduler = make("memory://", targets={"a": Stays(()), "b": Stays(())})
    scheduler.handler("h")(print)
    scheduler.start()
    assert scheduler.stop() == []
    assert len(closed) == 2
    assert caplog.text.count("a target could not be closed") == 2
