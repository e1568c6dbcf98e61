from __future__ import annotations

from typing import Any, Final

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.record import record
from tickwheel.jobs.retry import RetryPolicy

__all__ = ["BEHIND_THE_KEY", "TaskCall", "check_call"]

BEHIND_THE_KEY: Final = "it is a call of a task: pass it behind the key, as in set('order/17', call)"

_OF: Final = "pass what its of() returns, such as cancel_order.of(number=17)"


@record
class TaskCall:
    """
    One call of a task, such as `cancel_order.of(number=17)`.

    Attributes:
        handler: The task's name.
        payload: The arguments by name, in JSON, without omitted arguments.
        retry: The task's retry policy, or None for the scheduler's.
    """

    handler: str
    payload: dict[str, Any]
    retry: RetryPolicy | None = None


def check_call(call: object) -> TaskCall:
    if isinstance(call, TaskCall):
        return call
    if callable(call):
        raise InvalidJobError("call", call, f"a function or task is not a call of it: {_OF}")
    raise InvalidJobError("call", call, f"{_OF}, or a handler's name with handler=")
