"""
The Dramatiq target: a message is enqueued at its instant, with no delay of Dramatiq's own.

The message's id is the same for all attempts.
"""

from __future__ import annotations

from typing import Any, Self

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._task import Task, TaskTarget
from tickwheel.targets._url import REDIS_OPTIONS, REDIS_SCHEMES, TargetUrl, UrlForm, seconds, text
from tickwheel.targets.contract import Firing
from tickwheel.typing import Duration

__all__ = ["DramatiqTarget"]


class DramatiqTarget(TaskTarget):
    """
    Enqueues messages for actors by their names; the process that fires need not have their code.

    Args:
        broker: A `dramatiq.Broker`; the code that made it closes it.
        queue: The name of the queue; a job's option "queue_name" takes precedence, and that of a known actor follows.
        timeout_s: How long enqueuing one may take.
    """

    _library = "dramatiq"
    _example = "send_mail"

    def __init__(self, broker: Any, *, queue: str = "default", timeout_s: Duration = 30.0) -> None:
        if not hasattr(broker, "enqueue"):
            raise InvalidJobError("broker", broker, "pass a dramatiq.Broker")
        self._broker = broker
        self._queue = queue
        super().__init__("the broker of Dramatiq", timeout_s)

    def __repr__(self) -> str:
        return f"<DramatiqTarget of {type(self._broker).__name__}, queue {self._queue!r}>"

    @classmethod
    def of_url(cls, url: str, *, queue: str = "default", timeout_s: Duration = 30.0) -> Self:
        """
        Return a target with a broker of its own, in the Redis at *url*.

        Raises:
            InvalidJobError: For a timeout that no socket takes.
            MissingExtraError: If Dramatiq is missing, or redis.
        """
        patience_s = checks.positive_s("timeout_s", timeout_s, checks.SOCKET_S_MAX)
        redis = library("redis", "redis").Redis
        client = redis.from_url(url, socket_timeout=patience_s, socket_connect_timeout=patience_s)
        broker = library("dramatiq.brokers.redis", "dramatiq").RedisBroker(client=client, middleware=[])
        made = cls(broker, queue=queue, timeout_s=patience_s)
        made._close = client.close
        return made

    def _enqueue(self, firing: Firing, task: Task) -> None:
        actor = firing.job.handler
        options = {"tickwheel": headers(firing), **task.options}
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
        )  # wherever it keeps them


def _of_url(url: TargetUrl) -> DramatiqTarget:
    readers = {"queue": text, "timeout_s": seconds}
    found = url.take(readers)
    url.refuse_others(readers, REDIS_OPTIONS)
    return DramatiqTarget.of_url(url.inner(REDIS_SCHEMES, URL_FORM.example), **found)


URL_FORM = UrlForm(_of_url, "dramatiq+redis://:password@localhost:6379/0")
