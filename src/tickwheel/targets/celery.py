"""
The Celery target: a task is sent to its queue at its due time, without an ETA.

A Celery worker holds a task with an ETA in memory, unacknowledged. After the broker's visibility timeout, another
worker gets the same task (kombu#337). Here the job waits in the store, and the queue gets the task when it is due. The
task's id is the same for all attempts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Self

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library, missing
from tickwheel.targets._options import Kind, check_headers, check_options, count, flag, mapping, seconds, text, whole_to
from tickwheel.targets._task import BlockingTaskTarget, Task
from tickwheel.targets._threads import Threads
from tickwheel.targets._url import TargetUrl, UrlForm, number
from tickwheel.targets._url import seconds as seconds_of
from tickwheel.targets._url import text as text_of
from tickwheel.targets.contract import Firing
from tickwheel.typing import Duration

__all__ = ["CeleryTarget"]

_EARLIER: Final = "leave it out, and set the job for that instant: the job waits here, and not in a worker"
_REFUSED: Final = {"countdown": _EARLIER, "eta": _EARLIER}


def _is_signature(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("task"), str)


def _is_expiry(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(seconds[0](value))
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


_EXPIRES: Final[Kind] = (
    _is_expiry,
    "pass seconds, which count from the instant of the job, or a time as text in ISO 8601",
)
_SIGNATURE: Final[Kind] = (_is_signature, "pass a signature, such as signature('tasks.mail')")
_SIGNATURES: Final[Kind] = (
    lambda value: _is_signature(value) or (isinstance(value, list) and all(map(_is_signature, value))),
    "pass a signature, or a list of them, such as signature('tasks.mail')",
)
_OPTIONS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("queue", "exchange", "routing_key", "serializer", "compression", "task_id", "shadow"), text),
    **dict.fromkeys(("reply_to", "group_id", "root_id", "parent_id", "argsrepr", "kwargsrepr"), text),
    **dict.fromkeys(("ignore_result", "retry", "mandatory", "immediate"), flag),
    **dict.fromkeys(("time_limit", "soft_time_limit", "expiration"), seconds),
    **dict.fromkeys(("headers", "retry_policy"), mapping),
    **dict.fromkeys(("link", "link_error", "chain"), _SIGNATURES),
    "priority": whole_to(255),
    "delivery_mode": whole_to(2, least=1),
    "group_index": count,
    "expires": _EXPIRES,
    "chord": _SIGNATURE,
}
"""Options of `apply_async` that have an effect without the task's code."""
_HEADERS: Final = frozenset(
    {
        *("lang", "task", "id", "shadow", "eta", "expires", "group", "group_index", "retries", "timelimit"),
        *("root_id", "parent_id", "argsrepr", "kwargsrepr", "origin", "ignore_result", "replaced_task_nesting"),
        *("stamped_headers", "stamps"),
    }
)
"""The headers that identify the task for Celery's workers. A job must not replace them."""
_LIBRARIES: Final = frozenset(
    {
        *("bzip2", "bzip", "brotli", "lzma", "xz", "zstd", "zstandard"),
        *("application/x-bz2", "application/x-brotli", "application/x-lzma", "application/zstd"),
    }
)
"""The compressions that kombu supports if their libraries are installed."""


class CeleryTarget(BlockingTaskTarget):
    """
    Sends tasks by name. The process that fires need not have their code.

    The target has its own connections. On these, kombu does not repeat messages, and RabbitMQ confirms each message.

    Args:
        app: The `celery.Celery` application. Its broker and routes are used.
        timeout_s: Time limit of sending a task.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    _library = "celery"

    def __init__(self, app: Any, *, timeout_s: Duration = 30.0, rate: float | None = None) -> None:
        if not hasattr(app, "send_task"):
            raise InvalidJobError("app", app, "pass the celery.Celery application")
        self._app = app
        self._producers: Any = None
        super().__init__("the broker of Celery", timeout_s, rate)

    def __repr__(self) -> str:
        return f"<CeleryTarget of {getattr(self._app, 'main', None)!r}>"

    def require(self) -> None:
        # Celery would import the library for its broker's scheme only at the first task
        super().require()
        if self._url().startswith("redis"):
            library("redis", "celery")
        try:
            _ = self._app.connection_for_write().transport
        except ImportError as error:
            raise missing(error, "kombu", "celery") from None

    @classmethod
    def of_url(cls, url: str, *, queue: str = "celery", timeout_s: Duration = 30.0, rate: float | None = None) -> Self:
        """
        Return a target that has its own application, with the broker at *url* (Celery's `broker_url`).

        *queue* is the queue for jobs that name no queue. The other arguments are those of the class.
        """
        patience_s = checks.positive_s("timeout_s", timeout_s, checks.SOCKET_S_MAX)
        options = {}
        if url.startswith("redis"):
            library("redis", "redis")
            options = {"socket_timeout": patience_s, "socket_connect_timeout": patience_s}
        app = library("celery", "celery").Celery("tickwheel", broker=url, set_as_current=False)
        app.conf.task_default_queue = queue
        app.conf.broker_connection_timeout = patience_s
        app.conf.broker_transport_options = options
        return cls(app, timeout_s=patience_s, rate=rate)

    async def close(self) -> None:
        await super().close()
        producers, self._producers = self._producers, None
        if producers is not None:
            producers.force_close_all()
            producers.connections.force_close_all()

    async def _connect(self) -> Threads:
        connection = self._app.connection_for_write(transport_options={"confirm_publish": True})
        # Try each broker once. By default kombu sleeps between tries, and would still sleep when the broker is back.
        connection.transport_options["max_retries"] = max(0, len(connection.alt) - 1)
        connections = connection.Pool(self._app.conf.broker_pool_limit)
        self._producers = library("kombu.pools", "celery").ProducerPool(connections, connections.limit)
        return await super()._connect()

    def _check_options(self, options: dict[str, Any]) -> None:
        check_options("Celery", options, _OPTIONS, _REFUSED)
        check_headers("options['headers']", options.get("headers"), "Celery", _HEADERS)

    def _enqueue(self, firing: Firing, task: Task) -> None:
        options = {"task_id": firing.message_id, "retry": False, **task.options}
        options["headers"] = {**(task.options.get("headers") or {}), **headers(firing)}
        _check_compression(options.get("compression"))
        with self._producers.acquire(block=True) as producer:
            self._app.send_task(firing.job.handler, task.args, task.kwargs, producer=producer, **options)

    def _destination(self) -> Destination:
        return Destination.masking("the broker of Celery", *self._url().split(";"))

    def _url(self) -> str:
        return str(self._app.conf.broker_write_url or self._app.conf.broker_url or "")


def _check_compression(name: str | None) -> None:
    # otherwise kombu's transports would report a broken connection
    if name is None:
        return
    try:
        library("kombu.compression", "celery").get_encoder(name)
    except KeyError:
        if name in _LIBRARIES:
            message = f"kombu needs a library for the compression {name!r}"
            raise ImportError(message) from None
        message = f"kombu has no compression {name!r}"
        raise ValueError(message) from None


def _of_url(url: TargetUrl) -> CeleryTarget:
    found = url.take({"queue": text_of, "timeout_s": seconds_of, "rate": number})
    return CeleryTarget.of_url(url.inner(("amqp", "amqps", "redis", "rediss"), URL_FORM.example), **found)


URL_FORM = UrlForm(_of_url, "celery+redis://:password@localhost:6379/0", "tick.wheel")
