"""
The Dramatiq target: a message is enqueued at its due time, with the same id for all attempts.
"""

from __future__ import annotations

from typing import Any, Final, Self

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._options import Kind, check_options, count, flag, matching, text
from tickwheel.targets._task import BlockingTaskTarget, Task
from tickwheel.targets._url import REDIS_OPTIONS, REDIS_SCHEMES, TargetUrl, UrlForm, number, seconds
from tickwheel.targets._url import text as text_of
from tickwheel.targets.contract import Firing
from tickwheel.typing import Duration

__all__ = ["DramatiqTarget"]

_REFUSED: Final = {
    "delay": "leave it out, and set the job for that instant: the job waits here, and not in a worker",
    "eta": "leave it out, and set the job for that instant: the job waits here, and not in a worker",
    "tickwheel": "choose another name: tickwheel sets this one",
}
_ANY: Final[Kind] = (lambda _: True, "")
_MESSAGE: Final[Kind] = (
    lambda value: isinstance(value, dict) and {"queue_name", "actor_name", "args", "kwargs", "options"} <= value.keys(),
    "pass a message, such as actor.message().asdict()",
)
_QUEUE: Final = matching(
    r"[a-zA-Z_][a-zA-Z0-9._-]*", "begin with a letter or _, and go on with letters, digits, points, dashes and _"
)
"""The queue names that actors of Dramatiq may declare. No worker serves a queue with any other name."""
_OPTIONS: Final[dict[str, Kind]] = {
    "queue_name": _QUEUE,
    **dict.fromkeys(("max_retries", "min_backoff", "max_backoff", "max_age", "time_limit"), count),
    **dict.fromkeys(("result_ttl", "broker_priority", "priority", "max_backoff_exponent"), count),
    **dict.fromkeys(("store_results", "notify_shutdown", "pipe_ignore", "requeue_after_shutdown"), flag),
    **dict.fromkeys(("on_success", "on_failure", "on_retry_exhausted"), text),
    "pipe_target": _MESSAGE,
}
"""Options of the middleware that comes with Dramatiq."""


class DramatiqTarget(BlockingTaskTarget):
    """
    Enqueues messages for actors by name. The process that fires need not have their code.

    Args:
        broker: A `dramatiq.Broker`. Its creator closes it.
        queue: The queue of actors that *broker* does not know. A job's option "queue_name" takes precedence.
        timeout_s: Time limit of enqueuing a message.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    _library = "dramatiq"
    _example = "send_mail"

    def __init__(
        self, broker: Any, *, queue: str = "default", timeout_s: Duration = 30.0, rate: float | None = None
    ) -> None:
        if not hasattr(broker, "enqueue"):
            raise InvalidJobError("broker", broker, "pass a dramatiq.Broker")
        is_name, remedy = _QUEUE
        if not is_name(queue):
            raise InvalidJobError("queue", queue, remedy)
        self._broker = broker
        self._queue = queue
        super().__init__("the broker of Dramatiq", timeout_s, rate)

    def __repr__(self) -> str:
        return f"<DramatiqTarget of {type(self._broker).__name__}, queue {self._queue!r}>"

    @classmethod
    def of_url(cls, url: str, *, queue: str = "default", timeout_s: Duration = 30.0, rate: float | None = None) -> Self:
        """
        Return a target with its own broker object, for the Redis at *url*.
        """
        patience_s = checks.positive_s("timeout_s", timeout_s, checks.SOCKET_S_MAX)
        redis = library("redis", "redis").Redis
        client = redis.from_url(url, socket_timeout=patience_s, socket_connect_timeout=patience_s)
        broker = library("dramatiq.brokers.redis", "dramatiq").RedisBroker(client=client, middleware=[])
        made = cls(broker, queue=queue, timeout_s=patience_s, rate=rate)
        made._close = client.close
        return made

    def _check_options(self, options: dict[str, Any]) -> None:
        known = getattr(self._broker, "actor_options", ())  # options of the broker's middleware
        check_options("Dramatiq", options, dict.fromkeys(known, _ANY) | _OPTIONS, _REFUSED)

    def _enqueue(self, firing: Firing, task: Task) -> None:
        actor = firing.job.handler
        options = {**task.options, "tickwheel": headers(firing)}
        known = self._broker.actors.get(actor)
        queue = options.pop("queue_name", self._queue if known is None else known.queue_name)
        message = library("dramatiq", "dramatiq").Message(
            queue, actor, tuple(task.args), task.kwargs, options, firing.message_id, int(firing.fired_at)
        )
        self._broker.declare_queue(queue)
        self._broker.enqueue(message)

    def _destination(self) -> Destination:
        pool = getattr(getattr(self._broker, "client", None), "connection_pool", None)
        found = [getattr(pool, "connection_kwargs", {}).get("password"), *getattr(self._broker, "parameters", [])]
        return Destination.masking(
            "the broker of Dramatiq", *(each for each in found if isinstance(each, str))
        )  # wherever they are stored


def _of_url(url: TargetUrl) -> DramatiqTarget:
    readers = {"queue": text_of, "timeout_s": seconds, "rate": number}
    found = url.take(readers)
    url.refuse_others(readers, REDIS_OPTIONS)
    return DramatiqTarget.of_url(url.inner(REDIS_SCHEMES, URL_FORM.example), **found)


URL_FORM = UrlForm(_of_url, "dramatiq+redis://:password@localhost:6379/0")
