"""
The taskiq target: a task is kicked at its instant, and no scheduler of taskiq's own is needed.

The task's id is the same for all attempts.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._link import Link
from tickwheel.targets._task import check_task_name, task_of
from tickwheel.targets.contract import Call, DeadLetter, Firing
from tickwheel.typing import Duration

__all__ = ["TaskiqTarget"]


class TaskiqTarget:
    """
    Kicks tasks by their names; the process that fires need not have their code.

    Args:
        broker: A `taskiq.AsyncBroker`, started and shut down here; make one for this target alone.
        timeout_s: How long kicking one may take.
    """

    def __init__(self, broker: Any, *, timeout_s: Duration = 30.0) -> None:
        if not hasattr(broker, "kick"):
            raise InvalidJobError("broker", broker, "pass a taskiq.AsyncBroker")
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._broker = broker
        self._link: Link[Any] = Link(self._start, lambda started: started.shutdown(), lambda _started: True)

    def __repr__(self) -> str:
        return f"<TaskiqTarget of {type(self._broker).__name__}>"

    def check(self, handler: str) -> None:
        """
        Refuse what is not the name of a task.
        """
        check_task_name(handler, "tasks:send_mail")

    def resolve(self, handler: str) -> Call:
        """
        Return the call that kicks the task *handler*.
        """
        self.check(handler)
        library("taskiq", "taskiq")
        return Call(self._send, is_async=True, wants_payload=False, wants_firing=True)

    async def close(self) -> None:
        """
        Shut the broker down.
        """
        await self._link.close()

    async def _send(self, firing: Firing) -> DeadLetter | None:
        try:
            task = task_of(firing.job.payload)
        except InvalidJobError as error:
            return DeadLetter(str(error))
        destination = Destination.masking(str(getattr(self._broker, "url", "")), *_passwords(self._broker))
        try:
            async with asyncio.timeout(self._timeout_s):
                broker = await self._link.get()
                kicker = library("taskiq.kicker", "taskiq").AsyncKicker(firing.job.handler, broker, {})
                kicker = kicker.with_task_id(firing.message_id).with_labels(**headers(firing), **task.options)
                await kicker.kiq(*task.args, **task.kwargs)
        except TimeoutError:
            raise destination.silent(self._timeout_s) from None
        except Exception as error:  # noqa: BLE001  every broker has errors of its own
            raise destination.failed(error.__cause__ or error) from None
        return None

    async def _start(self) -> Any:
        await self._broker.startup()
        return self._broker


def _passwords(broker: Any) -> list[str]:
    password = getattr(getattr(broker, "connection_pool", None), "connection_kwargs", {}).get("password")
    return [password] if isinstance(password, str) else []
