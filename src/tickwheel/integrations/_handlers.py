from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

from tickwheel.scheduler import AsyncScheduler, InvalidJobError, RetryPolicy, Scheduler, Task
from tickwheel.scheduler.tasks import TaskFields, TaskMaker, WithFiring, made
from tickwheel.targets import Default, Firing
from tickwheel.targets.handler import name_of
from tickwheel.typing import Duration, ExecutorName

if TYPE_CHECKING:
    from typing import Concatenate

__all__ = ["Handlers", "within"]

_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Fields(TypedDict, total=False):
    retry: RetryPolicy | None
    timeout: Duration | Default | None
    concurrency: int | Default | None
    rate: float | None
    lane: str | None
    executor: ExecutorName


class Handlers:
    """
    The handlers and tasks of an application, for all schedulers that it makes: one in production, and one per test.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[Callable[..., Any], _Fields]] = {}
        self._tasks: dict[str, Task[..., ..., Any]] = {}
        self._known: WeakKeyDictionary[Scheduler | AsyncScheduler, set[str]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(sorted([*self._handlers, *self._tasks])) or 'no handlers'}>"

    @overload
    def handler(self, name: _Handler, /) -> _Handler: ...

    @overload
    def handler(self, name: str | None = None, **fields: Unpack[_Fields]) -> Callable[[_Handler], _Handler]: ...

    def handler(
        self, name: str | _Handler | None = None, **fields: Unpack[_Fields]
    ) -> Callable[[_Handler], _Handler] | _Handler:
        """
        Register the decorated function as the handler of jobs with `handler=name`. See `Scheduler.handler`.

        A taken name raises an InvalidJobError.
        """
        if callable(name):
            return self.handler()(name)

        def add(function: _Handler) -> _Handler:
            if isinstance(function, Task):
                raise InvalidJobError("handler", function, "it is a task, which needs no handler: set its of(...)")
            known = name_of(function) if name is None else name
            self._check(known)
            self._handlers[known] = function, fields
            return function

        return add

    @overload
    def task(self, function: WithFiring[_P, _R], /) -> Task[_P, Concatenate[Firing, _P], _R]: ...

    @overload
    def task(self, function: Callable[_P, _R], /) -> Task[_P, _P, _R]: ...

    @overload
    def task(self, function: None = None, /, **fields: Unpack[TaskFields]) -> TaskMaker: ...

    def task(self, function: Callable[..., Any] | None = None, /, **fields: Unpack[TaskFields]) -> Any:
        """
        Make a task of the decorated function, for all schedulers of the application. See `Scheduler.task`.
        """
        return made(function, fields, self.keep)

    def keep(self, task: Task[..., ..., Any]) -> None:
        """
        Register *task* for all schedulers of the application. A taken name raises an InvalidJobError.
        """
        for name in (task.name, *task.aliases):
            self._check(name)
        self._tasks |= dict.fromkeys((task.name, *task.aliases), task)

    def has(self, name: str) -> bool:
        return name in self._handlers or name in self._tasks

    def _check(self, name: str) -> None:
        if self.has(name):
            raise InvalidJobError("handler", name, "there is one of that name: take another name")

    def _register(
        self,
        scheduler: Scheduler | AsyncScheduler,
        around: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function,
    ) -> None:
        """
        Register all handlers and tasks that *scheduler* lacks. *around* wraps each function that runs in this process.
        """
        known = self._known.setdefault(scheduler, set())
        for name, (function, fields) in self._handlers.items():
            if name not in known:
                is_apart = fields.get("executor") == "process"  # the other process finds the function by its name
                scheduler.handler(name, **fields)(function if is_apart else around(function))
                known.add(name)
        for task in self._tasks.values():
            if task.name not in known:
                scheduler.register_within(task, around)
                known |= {task.name, *task.aliases}


def within(function: Callable[..., Any], context: Callable[[], AbstractContextManager[object]]) -> Callable[..., Any]:
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
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
