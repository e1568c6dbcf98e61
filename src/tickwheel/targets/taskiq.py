"""
The taskiq target: a task is sent ("kicked") at its due time, with the same id for all attempts.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._broker_errors import judge_broker
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._options import check_headers, check_options, scalar
from tickwheel.targets._task import Task, TaskTarget
from tickwheel.targets.contract import DeadLetter, Firing
from tickwheel.typing import Duration

__all__ = ["TaskiqTarget"]

_SHOWN: Final = "the broker of taskiq"
_REFUSED: Final = dict.fromkeys(
    ("delay", "schedule", "schedule_id"),
    "leave it out, and set the job for that instant: the job waits here, and not in a worker",
)
_AT_ONCE: Final = 32
"""Maximum number of concurrent messages to the broker. Each may need a connection."""


class TaskiqTarget(TaskTarget["_Started"]):
    """
    Sends tasks by name. The process that fires need not have their code.

    Args:
        broker: A `taskiq.AsyncBroker` for this target alone. The target starts it and shuts it down.
        timeout_s: Time limit of sending a task.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    _library = "taskiq"
    _example = "tasks:send_mail"

    def __init__(self, broker: Any, *, timeout_s: Duration = 30.0, rate: float | None = None) -> None:
        if not hasattr(broker, "kick"):
            raise InvalidJobError("broker", broker, "pass a taskiq.AsyncBroker")
        self._broker = broker
        super().__init__(_SHOWN, timeout_s, rate, self._start, lambda held: held.broker.shutdown())

    def __repr__(self) -> str:
        return f"<TaskiqTarget of {type(self._broker).__name__}>"

    def _check_options(self, options: dict[str, Any]) -> None:
        check_options("taskiq", options, dict.fromkeys(options, scalar), _REFUSED)
        check_headers("label", options)

    async def _publish(self, firing: Firing, task: Task, held: _Started) -> DeadLetter | None:
        begun = self._link.breakers.clock()
        kicker = library("taskiq.kicker", "taskiq").AsyncKicker(firing.job.handler, held.broker, {})
        kicker = kicker.with_task_id(firing.message_id).with_labels(**{**task.options, **headers(firing)})
        try:
            async with held.places:
                self._check_link(begun)
                await kicker.kiq(*task.args, **task.kwargs)
        except Exception as error:  # noqa: BLE001  every broker has its own errors
            return self._judge(error)
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
    broker: Any
    places: asyncio.Semaphore


def _passwords(broker: Any) -> list[str]:
    password = getattr(getattr(broker, "connection_pool", None), "connection_kwargs", {}).get("password")
    return [password] if isinstance(password, str) else []
