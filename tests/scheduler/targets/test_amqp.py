"""
The RabbitMQ target on a real broker: the target suite, and the features of RabbitMQ.
"""

from __future__ import annotations

import itertools
import json

import pytest
from outages import LongOutage

from tickwheel.observe.events import JobDied, JobFailed, JobSnoozed, JobSucceeded
from tickwheel.scheduler import InvalidJobError, RetryPolicy, SetRequest
from tickwheel.targets.amqp import AmqpTarget
from tickwheel.targets.celery import CeleryTarget
from tickwheel.testing.target_suite import Received, TargetSuite
from tickwheel.testing.wire import Wire

NUMBERS = itertools.count()
LENGTH_MAX = 1_000
SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL


@pytest.fixture
def channel(rabbitmq, loop):
    """
    Return a channel of a direct connection to the broker.
    """
    import aio_pika  # noqa: PLC0415  only where it is installed

    async def connect():
        connection = await aio_pika.connect(f"amqp://tick:{SECRET}@127.0.0.1:{rabbitmq.port}/")
        return connection, await connection.channel()

    connection, made = loop.run(connect())
    yield made
    loop.run(connection.close())


@pytest.fixture
def receiver(rabbitmq, cut, channel, loop):
    """
    Return a receiver that is a new queue of the broker. Its target reaches the queue through a proxy.
    """
    name = f"queue-{next(NUMBERS)}"
    limits = {"x-max-length": LENGTH_MAX, "x-overflow": "reject-publish"}
    queue = loop.run(channel.declare_queue(name, arguments=limits))

    class Receiver(cut):
        """
        A receiver that is one queue of the broker.
        """

        handler = name

        def __init__(self, wire):
            super().__init__(wire)
            self.messages = []

        def make_target(self):
            """
            Return a target that uses the proxy.

            Its timeout is longer than any stall of the machine.
            """
            return AmqpTarget(f"amqp://tick:{SECRET}@127.0.0.1:{self.wire.port}/", timeout_s=60)

        def fill(self):
            """
            Fill the queue, so that it rejects further messages.
            """
            self.received()
            import aio_pika  # noqa: PLC0415  only where it is installed

            async def publish():
                for _ in range(LENGTH_MAX):
                    await channel.default_exchange.publish(aio_pika.Message(b"filler"), name)

            loop.run(publish())

        def make_room(self):
            """
            Empty the queue.
            """
            loop.run(queue.purge())

        def received(self):
            """
            Return all messages that have arrived in the queue.
            """
            while (message := loop.run(queue.get(fail=False, no_ack=True))) is not None:
                self.messages.append(message)
            return [
                Received(each.message_id, each.headers["tickwheel-fire-id"], json.loads(each.body)["value"])
                for each in self.messages
            ]

    made = Receiver(Wire(rabbitmq.port))
    yield made
    made.wire.close()


class TestAmqp(LongOutage, TargetSuite):
    """
    The suite of targets, on RabbitMQ.
    """

    library, extra = "aio_pika", "amqp"
    bad_handlers = ("", "a\nb", "x" * 300, "exchange/" + "x" * 300)
    takes_largest = False

    @pytest.fixture(autouse=True)
    def _receiver(self, receiver):
        self.make_receiver = lambda: receiver


def test_an_exchange_and_a_routing_key(receiver, channel, loop, make, events):
    """
    A handler with a slash names an exchange and a routing key.

    The message has the fields that consumers need.
    """
    exchange = loop.run(channel.declare_exchange("shop", "topic"))
    queue = loop.run(channel.get_queue(receiver.handler))
    loop.run(queue.bind(exchange, "order.*"))
    scheduler = make("memory://", targets={"amqp": receiver.make_target()}).start()
    told = events(scheduler)
    scheduler.set("order/17", delay=0, target="amqp", handler="shop/order.unpaid", payload={"value": 17})
    told.of(JobSucceeded)
    assert [each.value for each in receiver.received()] == [17]
    (message,) = receiver.messages
    assert message.delivery_mode == 2
    assert message.content_type == "application/json"
    assert message.app_id == "tickwheel"
    assert message.headers["tickwheel-attempt"] == "1"
    assert message.routing_key == "order.unpaid"


@pytest.mark.parametrize("handler", ["nobody", "no-exchange/key"])
def test_messages_that_reach_no_queue(receiver, make, events, handler):
    """
    A message without a matching queue, or to a missing exchange, is a failed attempt.

    Other messages arrive.
    """
    scheduler = make("memory://", targets={"amqp": receiver.make_target()}).start()
    told = events(scheduler)
    scheduler.set("lost", delay=0, target="amqp", handler=handler, payload={"value": 1})
    error = told.of(JobFailed, "lost")[0].error
    assert "declare and bind one" in error or "NOT_FOUND" in error
    scheduler.set("found", delay=0, target="amqp", handler=receiver.handler, payload={"value": 2})
    told.of(JobSucceeded, "found")
    assert [each.value for each in receiver.received()] == [2]


def test_a_too_large_message_among_others(receiver, make, events):
    """
    Messages that are too large become dead letters.

    The other messages sent with them arrive in the same attempt.
    """
    scheduler = make("memory://", targets={"amqp": receiver.make_target()}).start()
    told = events(scheduler)
    payloads = {f"small/{number}": number for number in range(200)}
    payloads["largest"] = "x" * (500_000 - len('{"value":""}'))
    payloads.update({"large/1": "x" * 600_000, "large/2": "y" * 600_000})
    payloads.update({f"later/{number}": 200 + number for number in range(200)})
    scheduler.set_many(
        SetRequest(key, delay=0.2, target="amqp", handler=receiver.handler, payload={"value": value})
        for key, value in payloads.items()
    )
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded | JobDied) for each in told.items) == len(payloads))
    died = told.of(JobDied)
    assert sorted((each.key, each.attempt) for each in died) == [("large/1", 1), ("large/2", 1)]
    assert all("message size 600012" in each.error for each in died)
    assert not [each for each in told.items if isinstance(each, JobFailed) and not each.key.startswith("large")]
    assert {each.value for each in receiver.received()} == {*range(400), payloads["largest"]}


def test_a_missing_exchange_among_others(receiver, make, events):
    """
    A message to a missing exchange fails.

    Messages to other exchanges do not fail.
    """
    scheduler = make("memory://", targets={"amqp": receiver.make_target()}).start()
    told = events(scheduler)
    handlers = {f"{number}": "nowhere/key" if number % 100 == 50 else receiver.handler for number in range(400)}
    scheduler.set_many(
        SetRequest(
            key, delay=0.2, target="amqp", handler=handler, payload={"value": key}, retry=RetryPolicy(attempts=1)
        )
        for key, handler in handlers.items()
    )
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded | JobDied) for each in told.items) == len(handlers))
    died = told.of(JobDied)
    assert {each.key for each in died} == {"50", "150", "250", "350"}
    assert all("NOT_FOUND - no exchange 'nowhere'" in each.error for each in died)
    assert {each.value for each in receiver.received()} == handlers.keys() - {each.key for each in died}


def test_an_exchange_that_goes_away(receiver, channel, loop, make, events):
    """
    If an exchange is deleted, messages to it fail with that reason.

    Other messages do not fail.
    """
    queue = loop.run(channel.get_queue(receiver.handler))
    scheduler = make("memory://", targets={"amqp": receiver.make_target()}).start()
    told = events(scheduler)

    def publish(key, handler, kind):
        once = RetryPolicy(attempts=1)
        scheduler.set(key, delay=0, target="amqp", handler=handler, payload={"value": key}, retry=once)
        return told.of(kind, key)[0]

    for number in range(2):
        exchange = loop.run(channel.declare_exchange("brief", "fanout"))
        loop.run(queue.bind(exchange))
        publish(f"there {number}", "brief/key", JobSucceeded)
        publish(f"still there {number}", "brief/key", JobSucceeded)
        loop.run(exchange.delete())
        assert "NOT_FOUND - no exchange 'brief'" in publish(f"gone {number}", "brief/key", JobDied).error
        publish(f"other {number}", receiver.handler, JobSucceeded)
    assert len(receiver.received()) == 6
    assert len(told.of(JobDied)) == 2


def test_a_full_queue(receiver, channel, loop, make, events):
    """
    If a full queue rejects messages, their jobs wait.

    The messages arrive once there is room.
    """
    limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = loop.run(channel.declare_queue("full", arguments=limits))
    scheduler = make("memory://", targets={"amqp": receiver.make_target()}).start()
    told = events(scheduler)
    once = RetryPolicy(attempts=1)
    for number in range(5):
        scheduler.set(f"{number}", delay=0, target="amqp", handler="full", payload=number, retry=once)
    assert "'full' is full" in told.of(JobSnoozed)[0].reason
    scheduler.set("other", delay=0, target="amqp", handler=receiver.handler, payload={"value": 1}, retry=once)
    told.of(JobSucceeded, "other")
    taken = set()
    while len(taken) < 5:
        message = loop.run(queue.get(no_ack=True, fail=False))
        if message is not None:
            taken.add(json.loads(message.body))
    told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSucceeded)]) == 6)
    assert not [each for each in told.items if isinstance(each, JobFailed | JobDied)]
    loop.run(queue.delete())


def test_a_full_queue_of_celery(rabbitmq, channel, loop, make, events):
    """
    If RabbitMQ rejects a Celery task because its queue is full, the job waits until there is room.
    """
    celery = pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")
    from kombu import Queue  # noqa: PLC0415  only where it is installed

    app = celery.Celery("full", broker=f"amqp://tick:{SECRET}@127.0.0.1:{rabbitmq.port}//", set_as_current=False)
    limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
    app.conf.task_queues = [Queue("tasks", routing_key="tasks", queue_arguments=limits)]
    app.conf.task_default_queue = "tasks"
    scheduler = make("memory://", targets={"celery": CeleryTarget(app)}).start()
    told = events(scheduler)
    for number in range(5):
        payload, retry = {"args": [number]}, RetryPolicy(attempts=1)
        scheduler.set(f"{number}", delay=0, target="celery", handler="tasks.note", payload=payload, retry=retry)
    assert "it is full" in told.of(JobSnoozed)[0].reason
    queue = loop.run(channel.get_queue("tasks"))
    taken = set()
    while len(taken) < 5:
        message = loop.run(queue.get(no_ack=True, fail=False))
        if message is not None:
            taken.add(json.loads(message.body)[0][0])
    told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSucceeded)]) == 5)
    assert not [each for each in told.items if isinstance(each, JobFailed | JobDied)]
    loop.run(queue.delete())


def test_a_broker_that_lacks_memory(rabbitmq, receiver, make, events):
    """
    While the broker blocks publishers, all jobs wait, and the target keeps a single connection.

    Afterwards each message arrives exactly once.
    """
    target = AmqpTarget(f"amqp://tick:{SECRET}@127.0.0.1:{receiver.wire.port}/", timeout_s=0.5)
    scheduler = make("memory://", targets={"amqp": target}).start()
    told = events(scheduler)
    once = RetryPolicy(attempts=1)
    scheduler.set("first", delay=0, target="amqp", handler=receiver.handler, payload={"value": 0}, retry=once)
    told.of(JobSucceeded)
    rabbitmq.control("set_vm_memory_high_watermark", "absolute", "1MB")
    try:
        for number in range(1, 21):
            key = f"{number}"
            scheduler.set(key, delay=0, target="amqp", handler=receiver.handler, payload={"value": number}, retry=once)
        told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSnoozed)]) >= 60)
        assert receiver.wire.connections == 1
    finally:
        rabbitmq.control("set_vm_memory_high_watermark", "0.4")
    told.wait_for(lambda: len([each for each in told.items if isinstance(each, JobSucceeded)]) == 21)
    assert not [each for each in told.items if isinstance(each, JobFailed | JobDied)]
    assert sorted(each.value for each in receiver.received()) == list(range(21))


def test_wrong_password(rabbitmq, make, events):
    """
    A refused login is a failed attempt, whose error shows no password.
    """
    target = AmqpTarget(f"amqp://tick:wrong-word@127.0.0.1:{rabbitmq.port}/")
    scheduler = make("memory://", targets={"amqp": target}).start()
    told = events(scheduler)
    scheduler.set("one", delay=0, target="amqp", handler="orders")
    error = told.of(JobFailed)[0].error
    assert "ACCESS_REFUSED" in error
    assert "wrong-word" not in error + repr(target)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"url": "http://localhost"}, "its scheme is one of amqp, amqps"), ({"timeout_s": 0}, "timeout_s is 0")],
)
def test_bad_options(options, message):
    """
    Options that cannot work are refused when the target is made.
    """
    with pytest.raises(InvalidJobError, match=message):
        AmqpTarget(**options)
