"""
A taskiq broker with a task, for a worker process.
"""

from __future__ import annotations

import os
from typing import Annotated

from taskiq import Context, TaskiqDepends
from taskiq_redis import ListQueueBroker

broker = ListQueueBroker(os.environ["TICKWHEEL_BROKER"])


@broker.task(task_name="tasks:note")
async def note(line: str, context: Annotated[Context, TaskiqDepends()]) -> None:
    """
    Append the line and the task's id to the file of notes.
    """
    with open(os.environ["TICKWHEEL_NOTES"], "a") as notes:  # noqa: PTH123, ASYNC230 one append is atomic
        notes.write(f"{line} {context.message.task_id}\n")
