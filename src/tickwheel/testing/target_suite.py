"""
The contract suite of targets that send to a receiver: brokers, queues, webhooks.

To test a target, write a subclass, which pytest collects. It provides a real receiver:

    class TestMyTarget(TargetSuite):
        bad_handlers = ("", "no topic")

        def make_receiver(self):
            return MyReceiver(...)         # a `Receiver`

The suite imports no test library. `pytest.register_assert_rewrite("tickwheel.testing.target_suite")` makes pytest
explain the suite's assertions. The suite runs on the real clock, as its receivers do.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol
from unittest import mock

from tickwheel.errors import MissingExtraError
from tickwheel.jobs.checks import PAYLOAD_BYTES_MAX
from tickwheel.observe.events import Event, JobDied, JobFailed, JobFired, JobSnoozed, JobSucceeded
from tickwheel.scheduler import InvalidJobError, RetryPolicy, Scheduler, State, Target
from tickwheel.targets import Reporting

__all__ = ["Received", "Receiver", "TargetSuite"]

PATIENCE_S = 30.0
"""Maximum wait in seconds for an event that should be immediate. Only a failure takes that long."""
_LOOK_S = 0.01
_RETRY = RetryPolicy(attempts=1000, kind="list", waits_ms=(30,), jitter=0)


class Received(NamedTuple):
    """
    A message that has arrived, and the value from its payload.

    *message_id* is the same for all attempts. *fire_id* identifies the attempt that sent the message, and is
    percent-encoded as on the wire. Both are "" if the receiver does not report them.
    """

    message_id: str
    fire_id: str
    value: Any


class Receiver(Protocol):
    """
    A real receiver, the connection to it, and the target that uses it.

    Attributes:
        handler: The handler of jobs for this receiver.
        secret: A text that no error message may show; "" if there is no secret.
    """

    handler: str
    secret: str

    def make_target(self) -> Target:
        """
        Return a new target. It must reach the receiver through the connection that can be cut.
        """

    def payload(self, value: Any) -> Any:
        """
        Return the payload that carries *value*.
        """

    def received(self) -> list[Received]:
        """
        Return all messages that have arrived, in order.
        """

    def go_away(self) -> None:
        """
        Make the receiver unreachable, and break its connections.
        """

    def come_back(self) -> None:
        """
        Make the receiver reachable again.
        """

    def lose_confirms(self) -> None:
        """
        Deliver messages from now on, but drop their confirmations. The suite calls this while a connection is open.
        """

    def stall(self) -> None:
        """
        Accept data but process nothing until `go_on`, as if stopped. The suite calls this while a connection is open.
        """

    def go_on(self) -> None:
        """
        Process the accepted data, and continue.
        """

    def reset_all(self) -> None:
        """
        Break all connections, and each new connection immediately, until `come_back`.
        """

    def resets(self) -> int:
        """
        Return the number of connections that `reset_all` broke.
        """

    def fill(self) -> None:
        """
        Refuse every message from now on, for lack of room. The suite does not call this if `can_be_full` is False.
        """

    def make_room(self) -> None:
        """
        Accept messages again.
        """


class Rig:
    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.events: list[Event] = []
        self._grown = threading.Condition()
        self.target = receiver.make_target()
        self.scheduler = self._started()

    def change_scheduler(self) -> None:
        self.scheduler.stop()
        self.scheduler = self._started()

    def set(
        self, key: str, value: Any, retry: RetryPolicy = _RETRY, handler: str | None = None, delay: float = 0
    ) -> None:
        self.scheduler.set(
            key,
            delay=delay,
            target="there",
            handler=self.receiver.handler if handler is None else handler,
            payload=self.receiver.payload(value),
            retry=retry,
        )

    def wait(self, kind: type[Event], count: int = 1, key: str | None = None) -> list[Any]:
        def found() -> list[Any]:
            return [each for each in self.events if isinstance(each, kind) and key in (None, getattr(each, "key", 0))]

        with self._grown:
            assert self._grown.wait_for(lambda: len(found()) >= count, PATIENCE_S), self.events
            return found()

    def arrived(self, count: int) -> list[Received]:
        give_up = time.monotonic() + PATIENCE_S
        while len(found := self.receiver.received()) < count:
            assert time.monotonic() < give_up, (found, self.events)
            time.sleep(_LOOK_S)
        return found

    def texts(self) -> str:
        said = (str(getattr(each, name, "")) for each in self.events for name in ("error", "reason"))
        return "\n".join([repr(self.target), *said])

    def _started(self) -> Scheduler:
        made = Scheduler("memory://", targets={"there": self.target})
        made.subscribe(self._note)
        return made.start()

    def _note(self, event: Event) -> None:
        with self._grown:
            self.events.append(event)
            self._grown.notify_all()


class TargetSuite:
    """
    Tests for the promises of a target with a receiver. A subclass provides `make_receiver` and these attributes.

    Attributes:
        library: The third-party module that the target imports at first use; "" if there is none.
        extra: The extra of tickwheel that installs the library.
        bad_handlers: Invalid handler names.
        knows_repeats: True if the receiver drops duplicates.
        takes_largest: True if the receiver accepts the largest payload of a job.
        can_be_full: True if the receiver refuses messages while it has no room.
        connections_at_once: Maximum number of connections that are open when the target finds the receiver unreachable.
        connections_per_s: Maximum number of new connections per second while the receiver is unreachable.
    """

    library: ClassVar[str] = ""
    extra: ClassVar[str] = ""
    bad_handlers: ClassVar[tuple[str, ...]] = ("",)
    knows_repeats: ClassVar[bool] = False
    takes_largest: ClassVar[bool] = True
    can_be_full: ClassVar[bool] = True
    connections_at_once: ClassVar[int] = 2
    connections_per_s: ClassVar[float] = 1.0

    def make_receiver(self) -> Receiver:
        """
        Return a receiver without messages.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    @contextmanager
    def rig(self, receiver: Receiver | None = None) -> Iterator[Rig]:
        """
        Yield a rig with a receiver (by default a new one), a target and a started scheduler. Stop the rig at the end.
        """
        rig = Rig(self.make_receiver() if receiver is None else receiver)
        try:
            yield rig
        finally:
            rig.scheduler.stop(timeout=5)

    def test_delivered_once(self) -> None:
        with self.rig() as rig:
            for number in range(20):
                rig.set(f"kä/y\n {number}", {"number": number})
            rig.wait(JobSucceeded, 20)
            found = rig.arrived(20)
            assert sorted(each.value["number"] for each in found) == list(range(20))
            assert len({each.message_id for each in found}) == 20
            for each in found:
                assert f"k%C3%A4/y%0A%20{each.value['number']}/" in each.fire_id
                assert each.fire_id.endswith("/1")
            assert not [each for each in rig.events if isinstance(each, JobFailed)]

    def test_many_at_once(self) -> None:
        with self.rig() as rig:
            for number in range(300):
                rig.set(str(number), number)
            rig.wait(JobSucceeded, 300)
            assert not [each for each in rig.events if isinstance(each, JobFailed)]
            assert {each.value for each in rig.arrived(300)} == set(range(300))

    def test_receiver_away(self) -> None:
        with self.rig() as rig:
            rig.receiver.go_away()
            rig.set("away", 1, RetryPolicy(attempts=1))
            assert all(each.reason for each in rig.wait(JobSnoozed, 2))
            rig.receiver.come_back()
            (succeeded,) = rig.wait(JobSucceeded)
            assert succeeded.attempt == 1
            found = rig.arrived(1)
            assert {each.value for each in found} == {1}
            assert len({each.message_id for each in found}) == 1

    def test_outage(self) -> None:
        """
        An outage of the receiver costs a job no attempt. Each job arrives once, soon after the outage.
        """
        self.outage(2.0, 40)

    def outage(self, length_s: float, count: int, soon_s: float = PATIENCE_S) -> None:
        """
        Make the receiver unreachable for *length_s* while *count* jobs are due. All must arrive at most *soon_s* later.
        """
        with self.rig() as rig:
            scheduler = rig.scheduler
            rig.set("before", -1)
            rig.wait(JobSucceeded, key="before")
            rig.receiver.go_away()  # before the jobs are set, because an interrupted message may arrive twice
            for number in range(count):
                delay = length_s * number / count
                rig.set(str(number), number, RetryPolicy(), delay=delay)
            scheduler.set("its end", delay=length_s + 0.2, target="log")
            rig.wait(JobSucceeded, key="its end")
            rig.wait(JobSnoozed, count)
            rig.receiver.come_back()
            scheduler.set("soon", delay=soon_s, target="log")
            rig.wait(JobSucceeded, count + 2)
            ended = [each for each in list(rig.events) if isinstance(each, JobSucceeded | JobFailed | JobDied)]
            keys = [each.key for each in ended]
            assert "soon" not in keys[: count + 2], "it took too long after the receiver was back"
            assert not [each for each in ended if isinstance(each, JobFailed | JobDied)]
            assert {each.attempt for each in ended if isinstance(each, JobSucceeded)} == {1}
            assert sorted(each.value for each in rig.arrived(count + 1)) == list(range(-1, count))

    def test_receiver_stalls(self) -> None:
        with self.rig() as rig:
            rig.set("before", -1)
            rig.wait(JobSucceeded)
            rig.receiver.stall()
            for number in range(5):
                rig.set(str(number), number, RetryPolicy(attempts=1))
            rig.wait(JobFired, 6)
            rig.receiver.go_on()
            rig.wait(JobSucceeded, 6)
            assert not [each for each in rig.events if isinstance(each, JobFailed | JobDied)]
            assert sorted(each.value for each in rig.arrived(6)) == list(range(-1, 5))

    def test_receiver_is_full(self) -> None:
        """
        If the receiver has no room, a job loses no attempt, and its message arrives as soon as there is room.
        """
        if not self.can_be_full:
            return
        with self.rig() as rig:
            rig.set("before", -1)
            rig.wait(JobSucceeded)
            rig.arrived(1)
            rig.receiver.fill()
            for number in range(20):
                rig.set(str(number), number, RetryPolicy(attempts=1))
            assert all(each.reason for each in rig.wait(JobSnoozed, 40))
            if isinstance(rig.target, Reporting):
                states = {each["state"] for each in rig.scheduler.stats()["targets"]["there"].values()}
                assert states in ({"full"}, {"half-open"}, {"full", "half-open"}), states
            rig.receiver.make_room()
            rig.wait(JobSucceeded, 21)
            assert not [each for each in rig.events if isinstance(each, JobFailed | JobDied)]
            assert sorted(each.value for each in rig.arrived(21)) == list(range(-1, 20))

    def test_connections_are_reset(self) -> None:
        """
        A receiver that breaks each connection gets about one connection per second, for any number of jobs.
        """
        with self.rig() as rig:
            rig.set("before", -1)
            rig.wait(JobSucceeded)
            begun = time.monotonic()
            rig.receiver.reset_all()
            for number in range(50):
                rig.set(str(number), number, RetryPolicy(attempts=1))
            rig.wait(JobSnoozed, 150)
            resets, lasted = rig.receiver.resets(), time.monotonic() - begun
            assert resets <= self.connections_at_once + self.connections_per_s * lasted
            rig.receiver.come_back()
            rig.wait(JobSucceeded, 51)
            assert not [each for each in rig.events if isinstance(each, JobFailed | JobDied)]
            assert {each.value for each in rig.arrived(51)} == {*range(-1, 50)}

    def test_receiver_breaks_and_comes_back(self) -> None:
        with self.rig() as rig:
            rig.set("first", 1)
            rig.wait(JobSucceeded)
            rig.receiver.go_away()
            rig.receiver.come_back()
            rig.set("second", 2)
            rig.wait(JobSucceeded, 2)
            assert {each.value for each in rig.arrived(2)} == {1, 2}

    def test_confirm_is_lost(self) -> None:
        with self.rig() as rig:
            rig.set("first", 1)
            rig.wait(JobSucceeded)
            rig.receiver.lose_confirms()
            rig.set("second", 2)
            rig.arrived(2)
            rig.receiver.go_away()
            rig.wait(JobSnoozed, key="second")
            rig.receiver.come_back()
            rig.wait(JobSucceeded, key="second")
            found = [each for each in rig.arrived(2 if self.knows_repeats else 3) if each.value == 2]
            assert len(found) == 1 if self.knows_repeats else len(found) >= 2
            assert len({each.message_id for each in found}) == 1
            assert not [each for each in rig.events if isinstance(each, JobFailed | JobDied)]

    def test_the_largest_payload(self) -> None:
        with self.rig() as rig:
            size = len(json.dumps(rig.receiver.payload(""), separators=(",", ":")))
            rig.set("large", "x" * (PAYLOAD_BYTES_MAX - size))
            if self.takes_largest:
                rig.wait(JobSucceeded)
                assert len(rig.arrived(1)[0].value) == PAYLOAD_BYTES_MAX - size
            else:
                (died,) = rig.wait(JobDied)
                assert "too large" in died.error
                assert died.attempt == 1
                job = rig.scheduler.get("large")
                assert job is not None
                assert job.state is State.DEAD
                rig.set("small", 1)
                rig.wait(JobSucceeded)
                assert [each.value for each in rig.arrived(1)] == [1]

    def test_bad_handlers(self) -> None:
        with self.rig() as rig:
            for handler in self.bad_handlers:
                error = caught(InvalidJobError, partial(rig.set, "bad", 1, handler=handler))
                assert str(error).startswith("handler is ")
                assert ": " in str(error).removeprefix(f"handler is {handler!r}")
                assert rig.scheduler.get("bad") is None

    def test_missing_library(self) -> None:
        if not self.library:
            return
        missing = {name: None for name in sys.modules if name.partition(".")[0] == self.library}
        receiver = self.make_receiver()
        target = receiver.make_target()
        with mock.patch.dict(sys.modules, {self.library: None, **missing}):
            error = caught(MissingExtraError, lambda: target.resolve(receiver.handler))
        assert f"pip install 'tickwheel[{self.extra}]'" in str(error)

    def test_closed_cleanly(self) -> None:
        receiver = self.make_receiver()
        before = set(threading.enumerate())
        with self.rig(receiver) as rig:
            rig.set("one", 1)
            rig.wait(JobSucceeded)
        left = set(threading.enumerate()) - before
        assert not [each for each in left if each.name.startswith("tickwheel")], left
        receiver.go_away()  # ends the receiver's threads, which serve its connections
        give_up = time.monotonic() + PATIENCE_S
        for each in left:
            each.join(max(0.0, give_up - time.monotonic()))
            assert not each.is_alive(), f"{each} is left"
        asyncio.run(self.make_receiver().make_target().close())

    def test_used_again(self) -> None:
        with self.rig() as rig:
            for number in range(20):
                rig.set(f"first {number}", number)
            rig.wait(JobSucceeded, 20)
            rig.change_scheduler()
            for number in range(20):
                rig.set(f"second {number}", 20 + number)
            rig.wait(JobSucceeded, 40)
            assert not [each for each in rig.events if isinstance(each, JobFailed)]
            assert {each.value for each in rig.arrived(40)} == set(range(40))

    def test_secrets_are_masked(self) -> None:
        with self.rig() as rig:
            rig.set("one", 1)
            rig.wait(JobSucceeded)
            rig.receiver.go_away()
            rig.set("two", 2)
            assert rig.wait(JobSnoozed)[0].reason
            if rig.receiver.secret:
                assert rig.receiver.secret not in rig.texts()


def caught(kind: type[BaseException], call: Callable[[], object]) -> BaseException:
    try:
        call()
    except kind as error:
        return error
    message = f"it did not raise {kind.__name__}"
    raise AssertionError(message)
