"""
Handlers that are registered before there is a scheduler.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, TypedDict, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

from tickwheel.scheduler import AsyncScheduler, InvalidJobError, RetryPolicy, Scheduler
from tickwheel.targets import Usual
from tickwheel.targets.handler import name_of
from tickwheel.typing import Duration

__all__ = ["Handlers", "within"]

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class _Fields(TypedDict, total=False):
    """
    The keyword arguments of `Scheduler.handler`, beside the name.
    """

    retry: RetryPolicy | None
    timeout: Duration | Usual | None
    concurrency: int | Usual | None
    rate: float | None
    executor: str


class Handlers:
    """
    The handlers of an application, for as many schedulers as it makes: one in production, one for each test.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[Callable[..., Any], _Fields]] = {}
        self._known: WeakKeyDictionary[Scheduler | AsyncScheduler, set[str]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(sorted(self._handlers)) or 'no handlers'}>"

    @overload
    def handler(self, name: _Handler, /) -> _Handler: ...

    @overload
    def handler(self, name: str | None = None, **fields: Unpack[_Fields]) -> Callable[[_Handler], _Handler]: ...

    def handler(
        self, name: str | _Handler | None = None, **fields: Unpack[_Fields]
    ) -> Callable[[_Handler], _Handler] | _Handler:
        """
        Register the decorated function as the handler of jobs with `handler=name`: see `Scheduler.handler`.

        Raises:
            InvalidJobError: If the name is taken. What else `Scheduler.handler` refuses, it refuses when it is made.
        """
        if callable(name):
            return self.handler()(name)

        def add(function: _Handler) -> _Handler:
            known = name_of(function) if name is None else name
            if known in self._handlers:
                raise InvalidJobError("handler", known, "there is one of that name: take another name")
            self._handlers[known] = function, fields
            return function

        return add

    def _register(
        self,
        scheduler: Scheduler | AsyncScheduler,
        around: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function,
    ) -> None:
        """
        Register all handlers on *scheduler*, each as *around* returns it; one that runs in a process as it is.

        Those that were registered there before stay.
        """
        known = self._known.setdefault(scheduler, set())
        for name, (function, fields) in self._handlers.items():
            if name not in known:
                is_apart = fields.get("executor") == "process"  # which finds it by its name
                scheduler.handler(name, **fields)(function if is_apart else around(function))
                known.add(name)


def within(function: Callable[..., Any], context: Callable[[], AbstractContextManager[object]]) -> Callable[..., Any]:
    """
    Return what calls *function*, async or not, within a *context* of its own.
    """
    if is_async(function):

        @wraps(function)
        async def awaited(*arguments: object) -> object:
            with context():
                return await function(*arguments)

        return awaited

    @wraps(function)
    def called(*arguments: object) -> object:
        with context():
            return function(*arguments)

    return called


def is_async(function: Callable[..., Any]) -> bool:
    """
    Return whether *function* has to be awaited.
    """
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
