"""
The RabbitMQ target: a message with publisher confirms, to the queue or exchange in the job's handler.

    handler             destination
    orders              the queue "orders", through the default exchange
    shop/order.unpaid   the exchange "shop", with the routing key "order.unpaid"

Messages are persistent and mandatory: if no queue would get a message, the attempt fails. The property `message_id` is
the same for all attempts. Consumers can use this property to detect duplicates; the broker does not.

While the broker blocks publishers because it lacks memory or disk, jobs wait. A message that was written but not
confirmed is not written again on the same connection.

If a broker refuses a message, it closes the channel, and all other unconfirmed messages on the channel fail. Messages
therefore share a channel only if the broker has accepted similar ones. The first message to an exchange, and a message
larger than all earlier ones, get a channel of their own.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._link import Link, Linked
from tickwheel.targets._not_taken import NotTakenError
from tickwheel.targets._url import TargetUrl, UrlForm, number, seconds
from tickwheel.targets.contract import DeadLetter, Firing
from tickwheel.typing import Duration

__all__ = ["AmqpTarget"]

_NAME_BYTES_MAX = 255
"""Maximum length of AMQP's short strings, in bytes."""
_OPTIONS = ("heartbeat", "cafile", "capath", "certfile", "keyfile", "no_verify_ssl", "auth")
"""Options that aio-pika reads from a URL itself."""

_SMALL_BYTES: Final = 4096
"""A message size that every broker accepts."""
_LONE_MAX: Final = 32
"""Maximum number of channels that are opened for one message each."""
_HEARTBEAT_S: Final = 10
_SENDS_MAX: Final = 2
"""Maximum number of sends by one attempt. An attempt sends again only if another message has closed the channel."""


class _Open:
    """
    A connection, its shared channel, and a record of the messages that the broker has accepted on it.

    *lone* limits the number of channels that are opened for one message each.
    """

    def __init__(self, connection: Any, channel: Any) -> None:
        self.connection = connection
        self.lone = asyncio.Semaphore(_LONE_MAX)
        self._channel = channel
        self._opening = asyncio.Lock()
        self._exchanges = {""}
        self._size = _SMALL_BYTES

    @property
    def is_open(self) -> bool:
        transport = self.connection.transport
        return not (self.connection.is_closed or transport is None or transport.connection.is_closed)

    async def shared(self) -> Any:
        async with self._opening:
            if self._channel.is_closed:
                self._channel = await _channel(self.connection)
            return self._channel

    async def is_blocked(self) -> bool:
        try:
            async with asyncio.timeout(0):
                await self.connection.transport.connection.ready()
        except TimeoutError:
            return True
        return False

    def has_taken(self, exchange: str, size: int) -> bool:
        return exchange in self._exchanges and size <= self._size

    def forget_taken(self) -> None:
        # a message of an accepted exchange and size has closed the shared channel
        self._exchanges, self._size = {""}, _SMALL_BYTES

    def note_taken(self, exchange: str, size: int) -> None:
        self._exchanges.add(exchange)
        self._size = max(size, self._size)


class AmqpTarget(Linked):
    """
    Publishes to one RabbitMQ, or to another broker of AMQP 0-9-1 with publisher confirms.

    Args:
        url: Such as "amqp://user:password@localhost:5672/vhost".
        timeout_s: Time limit of connecting, and of an attempt's wait for the confirm.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    def __init__(
        self,
        url: str = "amqp://guest:guest@localhost:5672/",
        *,
        timeout_s: Duration = 10.0,
        rate: float | None = None,
    ) -> None:
        self._destination = Destination.of_url(url, ("amqp", "amqps"), "amqp://guest:guest@localhost:5672/")
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._rate = checks.limit_rate(rate)
        self._link: Link[_Open] = Link(
            self._destination.shown,
            self._timeout_s,
            self._connect,
            lambda held: held.connection.close(),
            lambda held: held.is_open,
        )

    def __repr__(self) -> str:
        return f"AmqpTarget({self._destination.shown!r})"

    def check(self, handler: str) -> None:
        if not handler or not handler.isprintable():
            raise InvalidJobError("handler", handler, "name a queue such as 'orders', or 'exchange/routing.key'")
        for name in _split(handler):
            if len(name.encode()) > _NAME_BYTES_MAX:
                raise InvalidJobError("handler", handler, f"AMQP's names have at most {_NAME_BYTES_MAX} bytes")

    def require(self) -> None:
        library("aio_pika", "amqp")

    async def _publish(self, firing: Firing, held: _Open) -> DeadLetter | None:
        pika = library("aio_pika", "amqp")
        if await held.is_blocked():
            reason = "it has blocked this connection, as it lacks memory or disk"
            raise NotTakenError(reason, is_up=False)
        try:
            for _ in range(_SENDS_MAX):
                if await self._is_taken(pika, held, firing):
                    return None
        except (pika.exceptions.AMQPError, OSError, RuntimeError) as error:
            return self._judge(pika, held, firing.job.handler, error)
        raise NotTakenError("other messages have closed the channel")

    def _judge(self, pika: Any, held: _Open, handler: str, error: Exception) -> DeadLetter:
        try:
            raise error
        except pika.exceptions.PublishError:
            message = f"no queue takes {handler!r}: declare and bind one"
            raise self._destination.failed(message) from None
        except pika.exceptions.DeliveryError:
            reason = f"{handler!r} is full: {self._destination.masked(error)}"
            raise NotTakenError(reason, is_full=True) from None
        except pika.exceptions.ChannelPreconditionFailed:
            if "message size" in str(error):
                return DeadLetter(f"the message is too large for {self._destination.shown}: {error}")
            raise self._destination.failed(error) from None
        except pika.exceptions.ChannelClosed:
            if not held.is_open:
                raise NotTakenError(self._destination.masked(error)) from None
            raise self._destination.failed(error) from None
        except (pika.exceptions.AMQPError, OSError, RuntimeError):
            raise NotTakenError(self._destination.masked(error)) from None

    async def _is_taken(self, pika: Any, held: _Open, firing: Firing) -> bool:
        """
        Publish the message. Return False if another message closed the channel.
        """
        exchange, _ = _split(firing.job.handler)
        size = len(firing.job.payload)
        if not held.has_taken(exchange, size):
            async with held.lone:
                if not held.has_taken(exchange, size):  # a message has closed the channel in the meantime
                    async with _channel(held.connection) as channel:
                        await _put(pika, channel, firing)
                    held.note_taken(exchange, size)
                    return True
        try:
            await _put(pika, await held.shared(), firing)
        except (pika.exceptions.ChannelClosed, pika.exceptions.ChannelInvalidStateError):
            held.forget_taken()
            return False
        return True

    async def _connect(self) -> _Open:
        pika = library("aio_pika", "amqp")
        errors = pika.exceptions
        made: list[Any] = []

        def make(*arguments: Any, **named: Any) -> Any:
            made.append(pika.Connection(*arguments, **named))
            return made[0]

        try:
            connection = await pika.connect(
                self._url(),
                timeout=self._timeout_s,
                client_properties={"connection_name": "tickwheel"},
                connection_class=make,
            )
        except (errors.AuthenticationError, errors.ProbableAuthenticationError) as error:
            raise self._destination.failed(error) from None
        except TimeoutError:
            raise
        except (errors.AMQPError, OSError, RuntimeError) as error:
            raise NotTakenError(self._destination.masked(error), is_up=False) from None
        finally:
            for each in made:
                if each.transport is None:  # it has failed, and would not close before its loop ends
                    await each.close()
        try:
            return _Open(connection, await _channel(connection))
        except BaseException:
            await connection.close()
            raise

    def _url(self) -> str:
        # the heartbeat detects a lost broker within half a minute
        url = self._destination.url
        if any(name == "heartbeat" for name, _ in parse_qsl(urlsplit(url).query)):
            return url
        return f"{url}{'&' if '?' in url else '?'}heartbeat={_HEARTBEAT_S}"


def _channel(connection: Any) -> Any:
    return connection.channel(publisher_confirms=True, on_return_raises=True)


async def _put(pika: Any, channel: Any, firing: Firing) -> None:
    name, routing_key = _split(firing.job.handler)
    exchange = await channel.get_exchange(name, ensure=False) if name else channel.default_exchange
    await exchange.publish(_message(pika, firing), routing_key, mandatory=True)


def _split(handler: str) -> tuple[str, str]:
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
    readers = {"timeout_s": seconds, "rate": number}
    found = url.take(readers)
    url.refuse_others(readers, _OPTIONS)
    url.check_port(URL_FORM.example)
    return AmqpTarget(url.rest(), **found)


URL_FORM = UrlForm(_of_url, "amqp://user:password@localhost:5672/")
