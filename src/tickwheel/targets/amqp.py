"""
The RabbitMQ target: a message with publisher confirms, to the queue or exchange that the job names as its handler.

    handler             goes to
    orders              the queue "orders", through the default exchange
    shop/order.unpaid   the exchange "shop", with the routing key "order.unpaid"

Messages are persistent and mandatory: one that no queue would get is a failed attempt, not a lost message.
The property `message_id` is the same for all attempts; the broker does not look at it, the consumer does.

A broker closes the channel of a message that it refuses, and all that wait on it for their confirms fail. So messages
share a channel for what the broker has taken before; a first one to an exchange, and one larger than any before, goes
on a channel of its own.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._link import Link
from tickwheel.targets._url import TargetUrl, UrlForm, seconds
from tickwheel.targets.contract import Call, DeadLetter, Firing
from tickwheel.typing import Duration

__all__ = ["AmqpTarget"]

_NAME_BYTES_MAX = 255
"""What AMQP's short strings hold."""
_OPTIONS = ("heartbeat", "cafile", "capath", "certfile", "keyfile", "no_verify_ssl", "auth")
"""What aio-pika reads from a URL itself."""

_SMALL_BYTES: Final = 4096
"""A size that every broker takes."""
_LONE_MAX: Final = 32
"""How many channels there may be beside the shared one: enough to hide the round trips that opening them takes."""
_SENDS_MAX: Final = 2
"""How often one attempt sends a message; again only where another has closed the channel."""


class _Open:
    """
    A connection, its shared channel, and what the broker has taken on it.

    Attributes:
        lone: Held by whatever has a channel of its own.
    """

    def __init__(self, connection: Any, channel: Any) -> None:
        self.connection = connection
        self.channel = channel
        self.lone = asyncio.Semaphore(_LONE_MAX)
        self._exchanges = {""}
        self._size = _SMALL_BYTES

    def has_taken(self, exchange: str, size: int) -> bool:
        """
        Return whether such a message was taken before, so that it closes no channel.
        """
        return exchange in self._exchanges and size <= self._size

    def note_taken(self, exchange: str, size: int) -> None:
        """
        Note that such a message was taken.
        """
        self._exchanges.add(exchange)
        self._size = max(size, self._size)


class AmqpTarget:
    """
    Publishes to one RabbitMQ, or another broker of AMQP 0-9-1 with publisher confirms.

    Args:
        url: Such as "amqp://user:password@localhost:5672/vhost".
        timeout_s: How long connecting and the confirm may take together.

    Raises:
        InvalidJobError: For a URL of another kind, or a timeout that is not positive.
    """

    def __init__(self, url: str = "amqp://guest:guest@localhost:5672/", *, timeout_s: Duration = 10.0) -> None:
        self._destination = Destination.of_url(url, ("amqp", "amqps"), "amqp://guest:guest@localhost:5672/")
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._link: Link[_Open] = Link(self._connect, lambda held: held.connection.close(), _is_open)

    def __repr__(self) -> str:
        return f"AmqpTarget({self._destination.shown!r})"

    def check(self, handler: str) -> None:
        """
        Refuse what names no queue and no exchange with a routing key.
        """
        if not handler or not handler.isprintable():
            raise InvalidJobError("handler", handler, "name a queue such as 'orders', or 'exchange/routing.key'")
        for name in _split(handler):
            if len(name.encode()) > _NAME_BYTES_MAX:
                raise InvalidJobError("handler", handler, f"AMQP's names have at most {_NAME_BYTES_MAX} bytes")

    def resolve(self, handler: str) -> Call:
        """
        Return the call that publishes to *handler*.
        """
        self.check(handler)
        library("aio_pika", "amqp")
        return Call(self._send, is_async=True, wants_payload=False, wants_firing=True)

    async def close(self) -> None:
        """
        Close the connection.
        """
        await self._link.close()

    async def _send(self, firing: Firing) -> DeadLetter | None:
        pika = library("aio_pika", "amqp")
        held: _Open | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                for _ in range(_SENDS_MAX):
                    held = await self._link.get()
                    if await self._publish(pika, held, firing):
                        return None
                message = "other messages have closed the channel"
                raise ConnectionError(message)
        except pika.exceptions.PublishError:
            message = f"no queue takes {firing.job.handler!r}: declare and bind one"
            raise self._destination.failed(message) from None
        except TimeoutError:
            await self._link.drop(held)  # what was not answered on it would be waited for again
            raise self._destination.silent(self._timeout_s) from None
        except pika.exceptions.ChannelPreconditionFailed as error:
            if "message size" in str(error):
                return DeadLetter(f"the message is too large for {self._destination.shown}: {error}")
            raise self._destination.failed(error) from None
        except (pika.exceptions.AMQPError, OSError, RuntimeError) as error:
            raise self._destination.failed(error) from None

    async def _publish(self, pika: Any, held: _Open, firing: Firing) -> bool:
        """
        Publish, and raise what the broker has against this very message.

        Returns:
            Whether it was taken; otherwise some message has closed the shared channel.
        """
        exchange, _ = _split(firing.job.handler)
        size = len(firing.job.payload)
        if not held.has_taken(exchange, size):
            async with held.lone:
                if not held.has_taken(exchange, size):  # still
                    async with _channel(held.connection) as channel:
                        await _put(pika, channel, firing)
                    held.note_taken(exchange, size)
                    return True
        try:
            await _put(pika, held.channel, firing)
        except (pika.exceptions.ChannelClosed, pika.exceptions.ChannelInvalidStateError):
            return False
        return True

    async def _connect(self) -> _Open:
        pika = library("aio_pika", "amqp")
        connection = await pika.connect(
            self._destination.url, timeout=self._timeout_s, client_properties={"connection_name": "tickwheel"}
        )
        try:
            return _Open(connection, await _channel(connection))
        except BaseException:
            await connection.close()
            raise


def _is_open(held: _Open) -> bool:
    return not (held.connection.is_closed or held.channel.is_closed)


def _channel(connection: Any) -> Any:
    return connection.channel(publisher_confirms=True, on_return_raises=True)


async def _put(pika: Any, channel: Any, firing: Firing) -> None:
    name, routing_key = _split(firing.job.handler)
    exchange = await channel.get_exchange(name, ensure=False) if name else channel.default_exchange
    await exchange.publish(_message(pika, firing), routing_key, mandatory=True)


def _split(handler: str) -> tuple[str, str]:
    """
    Return the exchange, "" for the default one, and the routing key that *handler* names.
    """
    exchange, slash, key = handler.partition("/")
    return (exchange, key) if slash else ("", exchange)


def _message(pika: Any, firing: Firing) -> Any:
    return pika.Message(
        firing.job.payload,
        message_id=firing.message_id,
        headers=headers(firing),
        content_type="application/json",
        delivery_mode=pika.DeliveryMode.PERSISTENT,
        timestamp=datetime.fromtimestamp(firing.fired_at / 1000, UTC),
        app_id="tickwheel",
    )


def _of_url(url: TargetUrl) -> AmqpTarget:
    found = url.take({"timeout_s": seconds})
    url.refuse_others(("timeout_s",), _OPTIONS)
    url.check_port(URL_FORM.example)
    return AmqpTarget(url.rest(), **found)


URL_FORM = UrlForm(_of_url, "amqp://user:password@localhost:5672/")
