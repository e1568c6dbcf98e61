"""
The link to one receiver: a connection, a circuit breaker and the unanswered messages. All brokers and queues use it.

    the receiver                                       verdict
    cannot be reached, is blocked, or disconnects      the job waits and uses no attempt
    has no room                                        the jobs of this handler wait and use no attempt
    does not answer in time                            the job waits for the answer and uses no attempt
    refuses the message                                a failed attempt, with its reason
    can never take the message                         a dead letter

If a message was written but not answered, the next attempt of the job waits for the answer. The message is sent again
only if the connection is lost.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, Final, Generic, TypeVar

from tickwheel.jobs.errors import DeliveryError
from tickwheel.observe.events import Event
from tickwheel.targets._breaker import Breakers, Wait, back_off
from tickwheel.targets._not_taken import NotTakenError, put_off, waited_s
from tickwheel.targets.contract import Call, DeadLetter, Firing, Limits, Snooze

__all__ = ["Link", "Linked"]

_T = TypeVar("_T")
_OPEN_S: Final = 30.0
"""Maximum wait before a receiver is probed again."""
_RECONNECT_S: Final = 1.0
"""Minimum time between two connections."""
_CLOSE_S: Final = 1.0
"""Time limit of closing a connection. Without a limit, closing would never end if the receiver has stopped."""
_KEPT_MAX: Final = 100_000
"""Maximum number of sent messages that are remembered for the next attempts of their jobs."""


class _Sending:
    __slots__ = ("begun", "held", "task")

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.held: Any = None
        self.task: asyncio.Task[DeadLetter | None]


class Link(Generic[_T]):
    """
    Delivers messages over one connection on one event loop. After a close, it can be used on another loop.

    Args:
        timeout_s: Time limit of connecting, and of an attempt's wait for the answer.
        connect: Opens a connection. Any exception except `DeliveryError` means that the receiver is unreachable.
        disconnect: Closes a connection, broken or not.
        is_open: Returns True if a connection is usable.
    """

    def __init__(
        self,
        name: str,
        timeout_s: float,
        connect: Callable[[], Awaitable[_T]],
        disconnect: Callable[[_T], Awaitable[object]],
        is_open: Callable[[_T], bool] = lambda _: True,
    ) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._connect = connect
        self._disconnect = disconnect
        self._is_open = is_open
        self.breakers = Breakers(open_s=_OPEN_S)
        self._forget()

    def _forget(self) -> None:
        self._held: _T | None = None
        self._connecting: asyncio.Task[_T] | None = None
        self._connect_at = 0.0
        self._refused_at: float | None = None
        self._refusal: Exception | None = None
        self._sending: dict[str, _Sending] = {}
        self._answered_at = 0.0

    async def deliver(
        self, firing: Firing, publish: Callable[[_T], Awaitable[DeadLetter | None]]
    ) -> DeadLetter | Snooze | None:
        """
        Send the message of *firing* with *publish*. If the message was sent earlier, only wait for its answer.

        *publish* returns when the receiver has the message. It raises DeliveryError if the receiver refuses the
        message, and NotTakenError if it cannot be delivered yet. If it cannot be delivered for a day, `deliver` raises
        a DeliveryError.
        """
        name = firing.message_id
        sending = self._sending.get(name)
        if sending is not None and self._is_gone(sending):
            sending = None
        if sending is None:
            wait = self._enter(firing)
            if wait is not None:
                return put_off(firing, wait.seconds, self._name, wait.reason)
            sending = self._send(firing, publish)
            self._sending[name] = sending
            try:
                await asyncio.wait((sending.task,), timeout=self._timeout_s)
            except asyncio.CancelledError:
                self._sending.pop(name, None)  # the task continues, but its result does not matter
                raise
            if not sending.task.done():
                self._note_silence(firing, sending)
        if not sending.task.done():
            return put_off(firing, self._wait_s(firing), self._name, self._silence())
        self._sending.pop(name, None)
        try:
            return sending.task.result()
        except NotTakenError as error:
            return put_off(firing, error.after_s or self._wait_s(firing), self._name, error.reason)
        except asyncio.CancelledError:
            return put_off(firing, back_off(0, _OPEN_S), self._name, "the connection was closed")

    async def close(self) -> None:
        held, tasks = self._held, [each.task for each in self._sending.values()]
        if self._connecting is not None:
            tasks.append(self._connecting)  # type: ignore[arg-type]  # it is only awaited
        self._forget()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)
        if held is not None:
            await self._end(held)

    def _enter(self, firing: Firing) -> Wait | None:
        wait = self.breakers.enter(self._name)
        if wait is None:
            wait = self.breakers.enter(self._lane(firing))
            if wait is not None:
                self.breakers.leave(self._name, is_up=None)
        return wait

    def _wait_s(self, firing: Firing) -> float:
        turn = self.breakers.turn(self._name) or self.breakers.turn(self._lane(firing))
        return back_off(waited_s(firing), _OPEN_S) if turn is None else turn.seconds

    def _lane(self, firing: Firing) -> str:
        return f"{self._name} {firing.job.handler}"

    def _send(self, firing: Firing, publish: Callable[[_T], Awaitable[DeadLetter | None]]) -> _Sending:
        loop = asyncio.get_running_loop()
        sending = _Sending(loop.time())

        async def send() -> DeadLetter | None:
            sending.held = await self._connected()
            return await publish(sending.held)

        sending.task = loop.create_task(send(), name="tickwheel-send")
        lane = self._lane(firing)
        sending.task.add_done_callback(lambda ended: self._note_end(ended, lane, loop.time()))
        if len(self._sending) >= _KEPT_MAX:
            first = next(iter(self._sending))
            if self._sending[first].task.done():
                del self._sending[first]
        return sending

    def _is_gone(self, sending: _Sending) -> bool:
        if sending.task.done():
            return isinstance(_error_of(sending.task), NotTakenError | asyncio.CancelledError)
        if sending.held is None or self._is_open(sending.held):
            return False
        sending.task.cancel()
        return True

    def _note_end(self, task: asyncio.Task[DeadLetter | None], lane: str, now: float) -> None:
        error = _error_of(task)
        leave = self.breakers.leave
        if isinstance(error, NotTakenError) and error.is_full:
            self._answered_at = now
            leave(self._name, is_up=True)
            leave(lane, is_up=False, reason=error.reason, is_full=True, after_s=error.after_s)
        elif isinstance(error, NotTakenError | asyncio.CancelledError):
            reason = error.reason if isinstance(error, NotTakenError) else ""
            leave(self._name, is_up=getattr(error, "is_up", None), reason=reason)
            leave(lane, is_up=None)
        else:
            self._answered_at = now
            leave(self._name, is_up=True)
            leave(lane, is_up=True)

    def _note_silence(self, firing: Firing, sending: _Sending) -> None:
        # the receiver is silent if it has answered no other message since *sending* began
        is_silent = self._answered_at < sending.begun
        self.breakers.leave(self._name, is_up=False if is_silent else None, reason=self._silence())
        self.breakers.leave(self._lane(firing), is_up=None)

    def _silence(self) -> str:
        return f"nothing came within {self._timeout_s:g} s, and the answer is still waited for"

    async def _connected(self) -> _T:
        held = self._held
        if held is not None and self._is_open(held):
            return held
        loop = asyncio.get_running_loop()
        if self._connecting is None:
            if loop.time() < self._connect_at:
                raise self._refused()
            self._connecting = loop.create_task(self._reconnect(held), name="tickwheel-connect")
            self._connecting.add_done_callback(_error_of)
        try:
            return await asyncio.shield(self._connecting)
        except (NotTakenError, DeliveryError) as error:
            raise copy(error) from None  # a copy for each waiting attempt

    def _refused(self) -> Exception:
        if isinstance(self._refusal, DeliveryError):
            return copy(self._refusal)
        reason = "the connection broke" if self._refusal is None else str(self._refusal)
        return NotTakenError(f"{reason}; it is made again in a moment")

    async def _reconnect(self, broken: _T | None) -> _T:
        loop = asyncio.get_running_loop()
        self._held, self._refusal = None, None
        begun = loop.time()
        self._connect_at = begun + _RECONNECT_S
        try:
            if broken is not None:
                await self._end(broken)
            try:
                async with asyncio.timeout(self._timeout_s):
                    self._held = held = await self._connect()
            except TimeoutError:
                reason = f"nothing came within {self._timeout_s:g} s"
                raise NotTakenError(reason, is_up=False) from None
        except NotTakenError as error:
            self._connect_at, self._refusal = loop.time() + _RECONNECT_S, error
            raise
        except DeliveryError as error:
            now = loop.time()
            self._refused_at = begun if self._refused_at is None else self._refused_at
            self._connect_at, self._refusal = now + back_off(now - self._refused_at, _OPEN_S), error
            raise
        else:
            self._refused_at = None
            return held
        finally:
            self._connecting = None

    async def _end(self, held: _T) -> None:
        with suppress(Exception):  # the connection is broken anyway
            async with asyncio.timeout(_CLOSE_S):
                await self._disconnect(held)


def _error_of(task: asyncio.Task[Any]) -> BaseException | None:
    # asyncio would log an exception that is never retrieved
    return asyncio.CancelledError() if task.cancelled() else task.exception()


class Linked(ABC):
    """
    The common part of targets that use a `Link`. `_publish` gets the firing and the connection.
    """

    _link: Link[Any]
    _rate: float | None
    _publish: Callable[..., Awaitable[DeadLetter | None]]

    @abstractmethod
    def check(self, handler: str) -> None: ...

    @abstractmethod
    def require(self) -> None: ...

    def resolve(self, handler: str) -> Call:
        self.check(handler)
        self.require()
        return self._call(self._send)

    async def _send(self, firing: Firing) -> DeadLetter | Snooze | None:
        return await self._link.deliver(firing, partial(self._publish, firing))

    def limits(self, _handler: str) -> Limits | None:
        return None if self._rate is None else Limits(rate=self._rate)

    async def close(self) -> None:
        await self._link.close()

    def report_to(self, emit: Callable[[Event], object]) -> None:
        self._link.breakers.emit = emit

    def figures(self) -> dict[str, Any]:
        return self._link.breakers.figures()

    def _call(self, send: Callable[[Firing], Awaitable[object]]) -> Call:
        return Call(send, is_async=True, wants_payload=False, wants_firing=True, timeout_s=None)
