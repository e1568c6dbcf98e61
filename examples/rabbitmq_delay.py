"""
Delays for RabbitMQ on two levels: the wheel holds each message until it is due, and then the broker gets it.

    python examples/rabbitmq_delay.py [URL]

This needs no plugin and no queue for each delay, and a delay has no limit. A waiting message is durable, and can be
moved and cancelled by its key. The broker confirms each message. A message that is sent again has the same message id,
so a consumer that keeps the ids it has seen can recognise a repeat.
"""

from __future__ import annotations

import asyncio
import sys

import aio_pika

from tickwheel.scheduler import AsyncScheduler
from tickwheel.targets.amqp import AmqpTarget


async def consume(url: str, count: int, is_ready: asyncio.Event) -> None:
    """
    Take messages from the queue, each of them once.
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
    Let three orders wait for payment; one is paid, and another gets more time.
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
