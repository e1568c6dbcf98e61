"""
Delay messages for RabbitMQ: tickwheel keeps each message until it is due, and then the broker gets it.

    python examples/rabbitmq_delay.py [URL]

This needs no plugin and no extra queues, and a delay may have any length. A waiting message can be moved and cancelled
by its key. With a database in place of `memory://`, it also survives a crash. The broker confirms each message. If a
message is sent twice, both copies have the same message id, by which the consumer recognises the repeat.
"""

from __future__ import annotations

import asyncio
import sys

import aio_pika

from tickwheel.scheduler import AsyncScheduler
from tickwheel.targets.amqp import AmqpTarget


async def consume(url: str, count: int, is_ready: asyncio.Event) -> None:
    """
    Take *count* messages from the queue, and ignore repeated ones.
    """
    seen: set[str | None] = set()
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders.unpaid", auto_delete=True)
        is_ready.set()
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    if message.message_id not in seen:
                        seen.add(message.message_id)
                        print("unpaid:", message.body.decode())
                if len(seen) == count:
                    return


async def main(url: str = "amqp://guest:guest@localhost/") -> None:
    """
    Send three delayed messages about unpaid orders; cancel one, and move another to a later time.
    """
    is_ready = asyncio.Event()
    consumer = asyncio.create_task(consume(url, 2, is_ready))
    await is_ready.wait()
    async with AsyncScheduler("memory://", targets={"rabbitmq": AmqpTarget(url)}) as scheduler:
        for number in (17, 18, 19):
            await scheduler.set(
                f"unpaid/{number}", delay=0.2, target="rabbitmq", handler="orders.unpaid", payload={"order": number}
            )
        print("17 is paid:", (await scheduler.cancel("unpaid/17")).outcome)
        print("18 gets more time:", (await scheduler.move("unpaid/18", delay=0.5)).outcome)
        await consumer


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
