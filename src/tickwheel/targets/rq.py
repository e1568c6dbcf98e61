"""
The RQ target: a function is put into its queue at its due time, without RQ's scheduler.

The RQ job's id is the same for all attempts. RQ does not add a job again if it still knows the id.
"""

from __future__ import annotations

import re
from typing import Any, Final, Self

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._options import (
    SECONDS_MAX,
    Kind,
    check_headers,
    check_options,
    flag,
    mapping,
    matching,
    text,
)
from tickwheel.targets._task import BlockingTaskTarget, Task
from tickwheel.targets._url import REDIS_OPTIONS, REDIS_SCHEMES, TargetUrl, UrlForm, number, seconds
from tickwheel.targets._url import text as text_of
from tickwheel.targets.contract import Firing
from tickwheel.typing import Duration

__all__ = ["RqTarget"]

_MESSAGE_ID: Final = "tickwheel-message-id"
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(-?[0-9]{1,12})([smhd]?)", re.ASCII | re.IGNORECASE)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_retry(value: Any) -> bool:
    if not isinstance(value, dict):
        return _is_whole(value, 1)
    interval = value.get("interval", 0)
    waits = interval if isinstance(interval, list) else [interval]
    is_known = value.keys() <= {"max", "interval"} and _is_whole(value.get("max"), 1)
    return is_known and bool(waits) and all(_is_whole(each, 0) and each <= SECONDS_MAX for each in waits)


def _duration(remedy: str, *, forever: bool, least: int) -> Kind:
    def is_one(value: Any) -> bool:
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        whole = value if found is None else int(found[1]) * _UNITS[found[2].lower()]
        return (forever and whole == -1) or (_is_whole(whole, least) and whole <= SECONDS_MAX)

    return is_one, f"pass whole seconds, or text such as '1h', {remedy}"


_IDS: Final = r"[A-Za-z0-9_-]+"
_ID: Final = matching(_IDS, "write it with letters, digits, dashes and _")
_RETRY: Final[Kind] = (_is_retry, 'pass how often, or {"max": 3, "interval": [10, 60]}')
_TIMEOUT: Final = _duration("more than 0, or -1 for no limit", forever=True, least=1)
_RESULT_TTL: Final = _duration("0 or more, or -1 to keep it", forever=True, least=0)
_JOBS: Final[Kind] = (
    lambda value: all(map(_ID[0], value if isinstance(value, list) and value else [value])),
    "pass the id of a job, or a list of them",
)
_OPTIONS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("queue", "description"), text),
    **dict.fromkeys(("timeout", "job_timeout"), _TIMEOUT),
    **dict.fromkeys(("result_ttl", "failure_ttl"), _RESULT_TTL),
    "ttl": _duration("more than 0", forever=False, least=1),
    "job_id": _ID,
    **dict.fromkeys(("at_front", "unique"), flag),
    "depends_on": _JOBS,
    "meta": mapping,
    "retry": _RETRY,
}


class RqTarget(BlockingTaskTarget):
    """
    Enqueues functions by their dotted names. The process that fires need not have their code.

    Args:
        connection: A `redis.Redis` for RQ. Its creator closes it.
        queue: The name of the queue. The option "queue" of a job takes precedence.
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
        Return a target that has its own connection, to the Redis at *url*.
        """
        library("rq", "rq")
        patience_s = checks.positive_s("timeout_s", timeout_s, checks.SOCKET_S_MAX)
        redis = library("redis", "rq").Redis
        client = redis.from_url(url, socket_timeout=patience_s, socket_connect_timeout=patience_s)
        made = cls(client, queue=queue, timeout_s=patience_s, rate=rate)
        made._close = client.close
        return made

    def check(self, handler: str) -> None:
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
        if options.get("unique") and options.get("depends_on"):
            remedy = "RQ has no unique jobs that depend on others: pass one of unique and depends_on"
            raise InvalidJobError("options['unique']", options["unique"], remedy)

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
        is_alone = is_ours and not options.get("depends_on")  # RQ refuses a unique job with dependencies
        if not is_alone and self._has(queue, name, firing.message_id):
            return
        unique = options.pop("unique", None)
        unique = is_alone if unique is None else unique
        try:
            queue.enqueue_call(firing.job.handler, tuple(task.args), task.kwargs, job_id=name, unique=unique, **options)
        except library("rq.exceptions", "rq").DuplicateJobError:
            if not is_ours:
                raise
            # an earlier attempt has enqueued the message, without a confirmation

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
