"""
The RQ target: a function is put into its queue at its instant, and the queue needs no scheduler of its own.

The RQ job's id is the same for all attempts, and a repeat of one that RQ still knows is not put there twice.
"""

from __future__ import annotations

from typing import Any, Final, Self

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._options import Kind, check_headers, check_options, flag, mapping, text
from tickwheel.targets._task import BlockingTaskTarget, Task
from tickwheel.targets._url import REDIS_OPTIONS, REDIS_SCHEMES, TargetUrl, UrlForm, number, seconds
from tickwheel.targets._url import text as text_of
from tickwheel.targets.contract import Firing
from tickwheel.typing import Duration

__all__ = ["RqTarget"]

_MESSAGE_ID: Final = "tickwheel-message-id"
_RETRY: Final[Kind] = (
    lambda value: (
        (isinstance(value, int) and not isinstance(value, bool) and value > 0)
        or (isinstance(value, dict) and "max" in value and value.keys() <= {"max", "interval"})
    ),
    'pass how often, or {"max": 3, "interval": [10, 60]}',
)
_DURATION: Final[Kind] = (
    lambda value: isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)),
    "pass whole seconds, or text such as '1h'",
)
_JOBS: Final[Kind] = (lambda value: isinstance(value, str | list), "pass the id of a job, or a list of them")
_OPTIONS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("queue", "description", "job_id"), text),
    **dict.fromkeys(("timeout", "job_timeout", "result_ttl", "ttl", "failure_ttl"), _DURATION),
    **dict.fromkeys(("at_front", "unique"), flag),
    "depends_on": _JOBS,
    "meta": mapping,
    "retry": _RETRY,
}


class RqTarget(BlockingTaskTarget):
    """
    Enqueues functions by their dotted names; the process that fires need not have their code.

    Args:
        connection: A `redis.Redis` for RQ; the code that made it closes it.
        queue: The name of the queue; a job's option "queue" takes precedence.
        timeout_s: Time limit of enqueuing a job.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    _library = "rq"

    def __init__(
        self, connection: Any, *, queue: str = "default", timeout_s: Duration = 30.0, rate: float | None = None
    ) -> None:
        if not hasattr(connection, "connection_pool"):
            raise InvalidJobError("connection", connection, "pass a redis.Redis")
        self._connection = connection
        self._queue = queue
        super().__init__("the Redis of RQ", timeout_s, rate)

    def __repr__(self) -> str:
        return f"<RqTarget, queue {self._queue!r}>"

    @classmethod
    def of_url(cls, url: str, *, queue: str = "default", timeout_s: Duration = 30.0, rate: float | None = None) -> Self:
        """
        Return a target with a connection of its own, to the Redis at *url*.

        Raises:
            InvalidJobError: For a timeout that no socket takes.
            MissingExtraError: If RQ is missing.
        """
        library("rq", "rq")
        patience_s = checks.positive_s("timeout_s", timeout_s, checks.SOCKET_S_MAX)
        redis = library("redis", "rq").Redis
        client = redis.from_url(url, socket_timeout=patience_s, socket_connect_timeout=patience_s)
        made = cls(client, queue=queue, timeout_s=patience_s, rate=rate)
        made._close = client.close
        return made

    def check(self, handler: str) -> None:
        """
        Refuse anything but the dotted name of a function.
        """
        super().check(handler)
        if "." not in handler or not all(part.isidentifier() for part in handler.split(".")):
            raise InvalidJobError("handler", handler, "name the function with its module, such as 'tasks.send_mail'")

    def _check_options(self, options: dict[str, Any]) -> None:
        check_options("RQ", options, _OPTIONS, {})
        check_headers("options['meta']", options.get("meta"))
        if "timeout" in options and "job_timeout" in options:
            raise InvalidJobError(
                "options['job_timeout']", options["job_timeout"], "it is the same as timeout: pass one"
            )

    def _enqueue(self, firing: Firing, task: Task) -> None:
        rq = library("rq", "rq")
        options = dict(task.options)
        options["meta"] = {**(options.get("meta") or {}), **headers(firing), _MESSAGE_ID: firing.message_id}
        if "job_timeout" in options:
            options["timeout"] = options.pop("job_timeout")
        if (retry := options.get("retry")) is not None:
            options["retry"] = rq.Retry(**(retry if isinstance(retry, dict) else {"max": retry}))
        queue = rq.Queue(options.pop("queue", self._queue), connection=self._connection)
        name = options.pop("job_id", firing.message_id)
        is_ours = name == firing.message_id
        if not is_ours and self._has(queue, name, firing.message_id):
            return
        unique = options.pop("unique", is_ours)
        try:
            queue.enqueue_call(firing.job.handler, tuple(task.args), task.kwargs, job_id=name, unique=unique, **options)
        except library("rq.exceptions", "rq").DuplicateJobError:
            if not is_ours:
                raise
            # an attempt before this one was not confirmed

    def _has(self, queue: Any, name: str, message_id: str) -> bool:
        found = queue.fetch_job(name)
        return found is not None and found.meta.get(_MESSAGE_ID) == message_id

    def _destination(self) -> Destination:
        secret = self._connection.connection_pool.connection_kwargs.get("password") or ""
        return Destination.masking("the Redis of RQ", secret)


def _of_url(url: TargetUrl) -> RqTarget:
    readers = {"queue": text_of, "timeout_s": seconds, "rate": number}
    found = url.take(readers)
    url.refuse_others(readers, REDIS_OPTIONS)
    return RqTarget.of_url(url.inner(REDIS_SCHEMES, URL_FORM.example), **found)


URL_FORM = UrlForm(_of_url, "rq+redis://:password@localhost:6379/0", "tick.wheel")
