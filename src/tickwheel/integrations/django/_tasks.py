from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name
from traceback import format_exception
from typing import Any, Final

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from django.utils.crypto import get_random_string

from tickwheel.integrations.django import Jobs, jobs
from tickwheel.jobs import checks
from tickwheel.jobs.retry import check_policy
from tickwheel.scheduler import Firing, HistoryRecord, InvalidJobError, Job, RetryPolicy, State, Task

__all__ = ["TickwheelBackend"]

_NAME: Final = "django.tasks"
_KEPT: Final = f"{_NAME}.result"
_OPTIONS: Final = frozenset({"attempts", "keep_results"})
_RECORDS_MAX: Final = 1_000
"""Maximum number of history records that are read for the result of a task."""
_INSTANTS: Final = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")


def _library() -> str:
    is_apart = apps.is_installed("django_tasks") or find_spec("django.tasks") is None
    name = "django_tasks" if is_apart else "django.tasks"
    if find_spec(name) is None:
        message = "there is no Tasks framework: take Django 6, or pip install django-tasks"
        raise ImproperlyConfigured(message)
    return name


_LIBRARY: Final = _library()
_base: Any = import_module(f"{_LIBRARY}.base")
_backends: Any = import_module(f"{_LIBRARY}.backends.base")
_signals: Any = import_module(f"{_LIBRARY}.signals")
_exceptions: Any = import_module(f"{_LIBRARY}.exceptions")
_Status: Any = _base.TaskResultStatus
_STATUS: Final = {State.RUNNING: _Status.RUNNING, State.DEAD: _Status.FAILED}


class TickwheelBackend(_backends.BaseTaskBackend):
    """
    Runs tasks as jobs of `jobs.scheduler`. A task that is enqueued inside `transaction.atomic()` joins the transaction.

    Each name in `QUEUES` is a handler, called "django.tasks/NAME", so queues do not wait for each other. A task that
    raises is retried like any job, and is `FAILED` once it is a dead letter. If no process has the function of a task,
    the task waits for a process that has it.

    `OPTIONS` may have `attempts`, the maximum number of attempts of a task (default: as for other jobs), and
    `keep_results`, the time for which the result of a task is kept (default: a day), in seconds, as a timedelta or as
    text such as "1h".
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        where = f"settings.TASKS[{alias!r}]"
        if not self.queues:
            message = f"{where}['QUEUES'] is empty: name each queue, since each is a handler of its own"
            raise ImproperlyConfigured(message)
        unknown = sorted(set(self.options) - _OPTIONS)
        if unknown:
            message = f"{where}['OPTIONS'] has {unknown[0]!r}: known are {', '.join(sorted(_OPTIONS))}"
            raise ImproperlyConfigured(message)
        try:
            attempts = self.options.get("attempts")
            self._retry = None if attempts is None else check_policy(RetryPolicy(attempts=attempts))
            self.kept_s = checks.seconds("keep_results", self.options.get("keep_results", "1d"))
        except (InvalidJobError, TypeError) as error:
            message = f"{where}['OPTIONS'] cannot be: {error}"
            raise ImproperlyConfigured(message) from error

    def register_queues(self, handlers: Jobs) -> None:
        for queue in sorted(self.queues):
            if not handlers.has(_handler(queue)):
                handlers.keep(_Queue(queue))
        if not handlers.has(_KEPT):
            handlers.handler(_KEPT)(_forget)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """
        Set a job that calls *task*, due at `run_after` or now. Arguments that JSON cannot hold raise a TypeError.
        """
        self.validate_task(task)
        result = self._result(task, get_random_string(32), args, kwargs)
        due = {"delay": 0} if task.run_after is None else {"at": _aware(task.run_after)}
        call = {"task": _path(task.func), "args": result.args, "kwargs": result.kwargs, "backend": self.alias}
        call |= {"queue": task.queue_name, "takes_context": task.takes_context}
        if task.run_after is not None:
            call["run_after"] = _aware(task.run_after).isoformat()
        key, handler = _key(result.id), _handler(task.queue_name)
        answer = jobs.scheduler.set(key, handler=handler, payload=call, retry=self._retry, **due)
        _fill(result, enqueued_at=_instant(answer.job.first_set_at))
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        try:
            job = jobs.scheduler.get(_key(result_id))
            if job is not None and job.handler.startswith(f"{_NAME}/"):
                return _of_job(job, result_id, _records(job))
            kept = jobs.scheduler.get(_key(result_id, "/result"))
        except InvalidJobError:  # not a valid key, so not the id of a task
            kept = None
        if kept is None or kept.handler != _KEPT:
            raise _exceptions.TaskResultDoesNotExist(result_id)
        return _of_kept(checks.decode_payload(kept.payload), result_id)

    def _result(self, task: Any, result_id: str, args: Any, kwargs: Any) -> Any:
        return _made(task, result_id, {"args": list(args), "kwargs": kwargs, "backend": self.alias})


class _Queue(Task[..., ..., Any]):
    """
    The handler of a queue. If this process lacks the function of a task, the task waits for a process that has it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(_call, {"name": _handler(name)})

    def prepare(self) -> None:
        """
        Do nothing, because the arguments of Django's tasks are JSON already.
        """

    def misfit(self, payload: Any) -> str | None:
        try:
            _task_of(payload)
        except Exception as error:  # noqa: BLE001  a payload may name any module, which may raise anything
            return f"this process cannot run {payload!r:.200}: {error}"
        return None

    def run(self, payload: Any, firing: Firing) -> object:
        _call(firing, payload)
        return None


def _call(firing: Firing, call: Any) -> None:
    result_id = firing.job.key.partition("/")[2]
    result = _of_job(firing.job, result_id, _records(firing.job) if firing.attempt > 1 else [])
    task = result.task
    backend = task.get_backend()
    now = timezone.now()
    _fill(result, status=_Status.RUNNING, started_at=result.started_at or now, last_attempted_at=now)
    result.worker_ids.extend([_NAME] * (firing.attempt - len(result.worker_ids)))
    _signals.task_started.send(type(backend), task_result=result)
    context = (_base.TaskContext(task_result=result),) if task.takes_context else ()
    try:
        value = _base.normalize_json(task.call(*context, *result.args, **result.kwargs))
    except Exception as error:
        kind = _path(type(error)).replace(":", ".")
        if firing.attempt >= firing.job.retry.attempts:
            result.errors.append(_base.TaskError(exception_class_path=kind, traceback="".join(format_exception(error))))
            _fill(result, status=_Status.FAILED, finished_at=timezone.now())
            _signals.task_finished.send(type(backend), task_result=result)
        firing.progress(0.0, kind)  # the note stays in the record of the attempt
        raise
    _fill(result, status=_Status.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)
    if backend.kept_s > 0:
        kept = call | {name: getattr(result, name).isoformat() for name in _INSTANTS}
        kept |= {"value": value, "worker_ids": result.worker_ids}
        jobs.scheduler.set(_key(result_id, "/result"), handler=_KEPT, payload=kept, delay=backend.kept_s)
    _signals.task_finished.send(type(backend), task_result=result)


def _forget(_payload: object) -> None:
    """
    Do nothing. A kept result is a job that is due when the result expires, so its firing removes the result.
    """


def _records(job: Job) -> list[HistoryRecord]:
    records = jobs.scheduler.history(job.key, limit=_RECORDS_MAX)
    return [each for each in reversed(records) if each.attempt and each.generation == job.generation]


def _of_job(job: Job, result_id: str, records: Sequence[HistoryRecord]) -> Any:
    payload = checks.decode_payload(job.payload)
    result = _made(_task_of(payload), result_id, payload)
    begun = [_instant(each.begun_at) for each in records if each.begun_at is not None]
    _fill(result, status=_STATUS.get(job.state, _Status.READY), enqueued_at=_instant(job.first_set_at))
    if begun:
        _fill(result, started_at=begun[0], last_attempted_at=begun[-1])
    if job.state is State.DEAD and records:
        _fill(result, finished_at=_instant(records[-1].at))
    result.worker_ids.extend(each.by for each in records)
    result.errors.extend(_error_of(each) for each in records if each.error is not None)
    return result


def _of_kept(payload: Mapping[str, Any], result_id: str) -> Any:
    result = _made(_task_of(payload), result_id, payload)
    _fill(result, status=_Status.SUCCESSFUL, _return_value=payload["value"])
    _fill(result, **{name: datetime.fromisoformat(payload[name]) for name in _INSTANTS})
    result.worker_ids.extend(payload["worker_ids"])
    return result


def _made(task: Any, result_id: str, call: Mapping[str, Any]) -> Any:
    return _base.TaskResult(
        task=task,
        id=result_id,
        status=_Status.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=call["args"],
        kwargs=call["kwargs"],
        backend=call["backend"],
        errors=[],
        worker_ids=[],
    )


def _task_of(payload: Mapping[str, Any]) -> Any:
    found = resolve_name(payload["task"])
    run_after = payload.get("run_after")
    if not isinstance(found, _base.Task):  # the function itself; its task has another name
        found = _base.task(found, backend=payload["backend"], takes_context=payload["takes_context"])
    moment = None if run_after is None else datetime.fromisoformat(run_after)
    return found.using(backend=payload["backend"], queue_name=payload["queue"], run_after=moment)


def _error_of(record: HistoryRecord) -> Any:
    return _base.TaskError(
        exception_class_path=record.note or "builtins.Exception", traceback=record.traceback or record.error or ""
    )


def _fill(result: Any, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)  # the object is frozen; the framework's own backends do the same


def _path(function: Any) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _handler(queue: str) -> str:
    return f"{_NAME}/{queue}"


def _key(result_id: str, part: str = "") -> str:
    return f"{_NAME}/{result_id}{part}"


def _aware(moment: datetime) -> datetime:
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


def _instant(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
