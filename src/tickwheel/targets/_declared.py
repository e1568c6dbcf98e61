"""
The options that a task declares in its code. The process that sets the job reads them.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["declared"]

_CELERY: Final = (
    "queue",
    "routing_key",
    "exchange",
    "priority",
    "expires",
    "serializer",
    "delivery_mode",
    "compression",
    "time_limit",
    "soft_time_limit",
    "ignore_result",
)
"""The options that `apply_async` takes from a task."""
_CELERY_QUEUE: Final = "celery"
"""Celery's default queue, for an application that sets no other default."""
_JSON: Final = "json"


def declared(task: Any, options: dict[str, Any]) -> dict[str, Any]:
    if hasattr(task, "apply_async"):
        return {**_of_celery(task, options), **options}
    if hasattr(task, "send_with_options"):
        return {"queue_name": task.queue_name, **options}
    if hasattr(task, "kiq"):
        labels = getattr(task, "labels", {})
        return {**{name: each for name, each in labels.items() if isinstance(each, str | int | float)}, **options}
    return options


def _of_celery(task: Any, options: dict[str, Any]) -> dict[str, Any]:
    found = {name: _named(getattr(task, name, None)) for name in _CELERY}
    found = {name: value for name, value in found.items() if value not in (None, False, _JSON)}
    app = getattr(task, "app", None)
    if app is None or {"queue", "exchange", "routing_key"} & {*found, *options}:
        return found
    if app.conf.task_routes:
        route = app.amqp.router.route({}, task.name)
        found |= {name: _named(route[name]) for name in _CELERY if route.get(name) is not None}
    elif app.conf.task_default_queue != _CELERY_QUEUE:
        found["queue"] = app.conf.task_default_queue
    if found.get("queue") == _CELERY_QUEUE:
        del found["queue"]  # the target's own queue takes precedence
    return found


def _named(value: Any) -> Any:
    return getattr(value, "name", value)
