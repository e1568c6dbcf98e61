"""
The Kafka target: a record in the topic that the job names as its handler.

The record's key is the job's key, so that the firings of one key stay in order in one partition. The job is done when
all in-sync replicas have the record (`acks=all`). The producer is idempotent, so its automatic retries are not stored
twice. A later attempt of the job adds another record with the same `message-id` header.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._link import Link, Linked
from tickwheel.targets._not_taken import NotTakenError
from tickwheel.targets._url import TargetUrl, UrlForm, number, seconds
from tickwheel.targets.contract import Call, DeadLetter, Firing
from tickwheel.threads import Condition, Thread
from tickwheel.typing import Duration

__all__ = ["KafkaTarget"]

_log = logging.getLogger("tickwheel.targets.kafka")

_TOPIC_MAX: Final = 249
_TOPIC_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_POLL_S: Final = 0.1
_MARGIN_S: Final = 1.0
"""Seconds by which an attempt waits longer than librdkafka does, so that librdkafka can report a failure first."""
_UNREACHABLE: Final = frozenset(
    {
        "_ALL_BROKERS_DOWN",
        "_MSG_TIMED_OUT",
        "_PURGE_INFLIGHT",
        "_PURGE_QUEUE",
        "_RESOLVE",
        "_SSL",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "BROKER_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_FOR_PARTITION",
        "REQUEST_TIMED_OUT",
    }
)
_FULL: Final = frozenset({"_QUEUE_FULL", "KAFKA_STORAGE_ERROR", "THROTTLING_QUOTA_EXCEEDED"})
_FIXED: Final = ("bootstrap.servers", "acks", "enable.idempotence")


class KafkaTarget(Linked):
    """
    Produces to one cluster.

    Args:
        servers: The bootstrap brokers, such as "localhost:9092" or "one:9092,two:9092".
        config: Further settings of librdkafka, such as {"security.protocol": "SASL_SSL", ...}.
        timeout_s: Time limit for storing a record, including retries.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.

    Raises:
        InvalidJobError: For a setting that would break the guarantees, or an invalid timeout.
    """

    def __init__(
        self,
        servers: str = "localhost:9092",
        *,
        config: Mapping[str, Any] | None = None,
        timeout_s: Duration = 30.0,
        rate: float | None = None,
    ) -> None:
        config = dict(config or {})
        for name in _FIXED:
            if name in config:
                raise InvalidJobError(
                    "config", name, "leave it out: it is set here, and records could be lost or doubled"
                )
        secrets = [str(value) for name, value in config.items() if "password" in name or "secret" in name]
        self._destination = Destination(servers, f"kafka at {servers}", secrets)
        patience_s = checks.positive_s("timeout_s", timeout_s, checks.SOCKET_S_MAX)
        self._config = {
            "client.id": "tickwheel",
            "message.timeout.ms": max(1, int(patience_s * 1000)),
            "reconnect.backoff.max.ms": 1000,
            **config,
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
        }
        self._is_checked = False
        self._rate = checks.limit_rate(rate)
        self._link: Link[_Producer] = Link(
            self._destination.shown, patience_s + _MARGIN_S, self._connect, _Producer.close, lambda held: held.is_open
        )

    def __repr__(self) -> str:
        return f"KafkaTarget({self._destination.url!r})"

    def check(self, handler: str) -> None:
        if not 0 < len(handler) <= _TOPIC_MAX or not set(handler) <= _TOPIC_CHARS or handler in (".", ".."):
            raise InvalidJobError("handler", handler, "name a topic: letters, digits, '.', '_' and '-', at most 249")

    def resolve(self, handler: str) -> Call:
        self.check(handler)
        kafka = library("confluent_kafka", "kafka")
        if not self._is_checked:
            try:
                kafka.Producer(dict(self._config)).close()
            except kafka.KafkaException as error:  # such as an unknown setting
                raise InvalidJobError("config", "...", f"{self._destination.failed(error.args[0].str())}") from None
            self._is_checked = True
        return self._call(self._send)

    def require(self) -> None:
        library("confluent_kafka", "kafka")

    async def _publish(self, firing: Firing, producer: _Producer) -> DeadLetter | None:
        error = await producer.send(firing)
        if error is None:
            return None
        kafka = library("confluent_kafka", "kafka")
        reason = self._destination.masked(f"topic {firing.job.handler!r}: {error.str()}")
        if error.code() == kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            return DeadLetter(f"the message is too large for {self._destination.shown}: {reason}")
        if error.fatal():
            producer.is_open = False
        if error.name() in _FULL:
            raise NotTakenError(reason, is_full=True)
        if error.retriable() or error.fatal() or error.name() in _UNREACHABLE:
            raise NotTakenError(reason, is_up=False)
        raise self._destination.failed(reason) from None

    async def _connect(self) -> _Producer:
        return _Producer(library("confluent_kafka", "kafka"), self._config)


class _Producer:
    def __init__(self, kafka: Any, config: Mapping[str, Any]) -> None:
        self._kafka = kafka
        self._producer = kafka.Producer(dict(config), logger=_log)
        self._wanted = Condition()
        self._waiting = 0
        self._is_closed = False
        self.is_open = True
        self._thread = Thread(target=self._poll, name="tickwheel-kafka", daemon=True)
        self._thread.start()

    async def send(self, firing: Firing) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def settle(error: Any) -> None:
            if not answer.done():  # a close has cancelled it
                answer.set_result(error)

        def delivered(error: Any, _record: Any) -> None:
            with self._wanted:
                self._waiting -= 1
            loop.call_soon_threadsafe(settle, error)

        job = firing.job
        with self._wanted:
            self._waiting += 1
            self._wanted.notify()
        try:
            self._producer.produce(
                job.handler,
                job.payload,
                job.key.encode(),
                headers=list({"message-id": firing.message_id, **headers(firing)}.items()),
                on_delivery=delivered,
            )
        except (self._kafka.KafkaException, BufferError) as error:
            with self._wanted:
                self._waiting -= 1
            if isinstance(error, BufferError):
                return self._kafka.KafkaError(self._kafka.KafkaError._QUEUE_FULL)  # noqa: SLF001  its public name
            return error.args[0]
        return await answer

    async def close(self) -> None:
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        with self._wanted:
            self._is_closed = True
            self._wanted.notify()
        self._thread.join()
        self._producer.purge()
        self._producer.close()

    def _poll(self) -> None:
        while True:
            with self._wanted:
                self._wanted.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    return
            self._producer.poll(_POLL_S)


def _of_url(url: TargetUrl) -> KafkaTarget:
    servers = url.base.partition("://")[2].rstrip("/")
    if "@" in servers:
        remedy = "write sasl.username= and sasl.password= after the question mark"
        raise InvalidJobError("url", url.shown, remedy)
    if not servers or "/" in servers:
        raise InvalidJobError("url", url.shown, f"it names no brokers: write as in {URL_FORM.example!r}")
    found = url.take({"timeout_s": seconds, "rate": number})
    return KafkaTarget(servers, config={name: unquote(value) for name, value in url.options}, **found)


URL_FORM = UrlForm(_of_url, "kafka://one:9092,two:9092")
