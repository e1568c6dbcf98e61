"""
Dramatiq actors for a worker process.

The environment names the actors' broker.
"""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage

broker = RedisBroker(url=os.environ["TICKWHEEL_BROKER"])
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="note", max_retries=0)
def note(line):
    """
    Append the line and the message's id to the file of notes.
    """
    message = CurrentMessage.get_current_message()
    with open(os.environ["TICKWHEEL_NOTES"], "a") as notes:  # noqa: PTH123 one append is atomic
        notes.write(f"{line} {message.message_id}\n")
