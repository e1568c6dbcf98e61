"""
The taskiq target: a task is kicked at its instant, and no scheduler of taskiq's own is needed.

The task's id is the same for all attempts.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, NamedTuple

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._broker_errors import judge_broker
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._link import Link, Linked
from tickwheel.targets._options import check_headers, check_options, scalar
from tickwheel.targets._task import Task, check_task_name, task_of
from tickwheel.targets.contract import Call, DeadLetter, Firing, Snooze
from tickwheel.typing import Duration

__all__ = ["TaskiqTarget"]

_SHOWN: Final = "the broker of taskiq"
_REFUSED: Final = dict.fromkeys(
    ("delay", "schedule", "schedule_id"),
    "leave it out, and set the job for that instant: the job waits here, and not in a worker",
)
_AT_ONCE: Final = 32
"""How many messages go to the broker at once: each may take a connection."""


class TaskiqTarget(Linked):
    """
    Kicks tasks by their names; the process that fires need not have their code.

    Args:
        broker: A `taskiq.AsyncBroker`, started and shut down here; make one for this target alone.
        timeout_s: How long kicking one may take.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    def __init__(self, broker: Any, *, timeout_s: Duration = 30.0, rate: float | None = None) -> None:
        if not hasattr(broker, "kick"):
            raise InvalidJobError("broker", broker, "pass a taskiq.AsyncBroker")
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._broker = broker
        self._rate = checks.limit_rate(rate)
        self._link: Link[_Started] = Link(_SHOWN, self._timeout_s, self._start, lambda held: held.broker.shutdown())

    def __repr__(self) -> str:
        return f"<TaskiqTarget of {type(self._broker).__name__}>"

    def check(self, handler: str) -> None:
        """
        Refuse what is not the name of a task.
        """
        check_task_name(handler, "tasks:send_mail")

    def check_payload(self, payload: bytes) -> None:
        """
        Refuse what is not a call, and labels that taskiq cannot send or that contradict the job.
        """
        labels = task_of(payload).options
        check_options("taskiq", labels, dict.fromkeys(labels, scalar), _REFUSED)
        check_headers("label", labels)

    def resolve(self, handler: str) -> Call:
        """
        Return the call that kicks the task *handler*.
        """
        self.check(handler)
        self.require()
        return self._call(self._send)

    def require(self) -> None:
        """
        Import the library.
        """
        library("taskiq", "taskiq")

    async def _send(self, firing: Firing) -> DeadLetter | Snooze | None:
        try:
            task = task_of(firing.job.payload)
        except InvalidJobError as error:
            return DeadLetter(str(error))
        return await self._link.deliver(firing, partial(self._publish, firing, task))

    async def _publish(self, firing: Firing, task: Task, held: _Started) -> DeadLetter | None:
        kicker = library("taskiq.kicker", "taskiq").AsyncKicker(firing.job.handler, held.broker, {})
        kicker = kicker.with_task_id(firing.message_id).with_labels(**{**task.options, **headers(firing)})
        try:
            async with held.places:
                await kicker.kiq(*task.args, **task.kwargs)
        except Exception as error:  # noqa: BLE001  every broker has errors of its own
            verdict = judge_broker(error, self._destination())
            if isinstance(verdict, DeadLetter):
                return verdict
            raise verdict from None
        return None

    async def _start(self) -> _Started:
        try:
            await self._broker.startup()
        except Exception as error:  # noqa: BLE001  as above
            verdict = judge_broker(error, self._destination())
            raise error if isinstance(verdict, DeadLetter) else verdict from None
        return _Started(self._broker, asyncio.Semaphore(_AT_ONCE))

    def _destination(self) -> Destination:
        return Destination.masking(_SHOWN, str(getattr(self._broker, "url", "")), *_passwords(self._broker))


class _Started(NamedTuple):
    """
    A broker that was started, and how many messages may be on their way to it at once.
    """

    broker: Any
    places: asyncio.Semaphore


def _passwords(broker: Any) -> list[str]:
    password = getattr(getattr(broker, "connection_pool", None), "connection_kwargs", {}).get("password")
    return [password] if isinstance(password, str) else []
