"""
Tasks: functions that jobs call with typed arguments. A module without a scheduler uses `task` and `register`.

    @scheduler.task(retry_on=(SMTPError,), timeout="2m")
    def cancel_order(number: int, reason: Reason = Reason.UNPAID) -> None: ...

    scheduler.set("order/17", cancel_order.of(number=17), delay="30m")
    cancel_order(17)    # a plain call runs it
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from tickwheel.host.lane_names import limits_in
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import RetryPolicy
from tickwheel.jobs.requests import check_names
from tickwheel.jobs.retry import check_policy
from tickwheel.jobs.task_call import TaskCall
from tickwheel.scheduler._signature import Signature
from tickwheel.targets import DEFAULT, Default, FinalError, Firing
from tickwheel.targets.handler import HandlerTarget
from tickwheel.typing import Duration, ExecutorName

if TYPE_CHECKING:
    from typing import Concatenate

__all__ = ["Task", "TaskCall", "TaskFields", "TaskMaker", "WithFiring", "check_task", "made", "names_of", "task"]

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)

Errors: TypeAlias = type[BaseException] | Sequence[type[BaseException]]
"""One class of exceptions, or several."""
Around: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Wraps a function: the argument is the function, and the result is the function to call in its place."""


class TaskFields(TypedDict, total=False):
    """
    The keyword arguments of `task`; `Scheduler.task` explains them.
    """

    name: str
    aliases: Sequence[str]
    retry: RetryPolicy | None
    retry_on: Errors
    dead_on: Errors
    timeout: Duration | Default | None
    concurrency: int | Default | None
    rate: float | None
    lane: str | None
    executor: ExecutorName


class WithFiring(Protocol[_P, _R_co]):
    """
    A function whose first parameter is `firing`.
    """

    def __call__(self, firing: Firing, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


class TaskMaker(Protocol):
    """
    A decorator that makes a task of a function.
    """

    @overload
    def __call__(self, function: WithFiring[_P, _R], /) -> Task[_P, Concatenate[Firing, _P], _R]: ...

    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Task[_P, _P, _R]: ...


class Task(Generic[_P, _Q, _R]):
    """
    A function that jobs call. `of` returns a call for a job; a plain call runs the function.

    Made by `Scheduler.task`, by `task` of this module, or by `Jobs.task` of an integration.

    Attributes:
        name: The name in jobs: module and qualified name, unless another name was given.
        aliases: Earlier names. The task also runs jobs with these names.
        __wrapped__: The function.
    """

    name: str
    aliases: tuple[str, ...]
    __wrapped__: Callable[_Q, _R]

    def __init__(self, function: Callable[_Q, _R], fields: TaskFields) -> None:
        if isinstance(function, Task):
            message = f"{function.name!r} is a task already: decorate the function once"
            raise TypeError(message)
        if not callable(function):
            message = (
                f"{function!r} is not a function: write @task above one, and its options by name, as in @task(name=...)"
            )
            raise TypeError(message)
        if inspect.isclass(function):
            message = f"task {function!r} is a class, and its objects would be lost: decorate a function"
            raise TypeError(message)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            message = f"task {function!r} is a generator, which nothing iterates: let it return"
            raise TypeError(message)
        self._function = function
        self._fields = fields
        update_wrapper(self, function, updated=())
        self.name = _name_of(function, fields.get("name"))
        aliases = fields.get("aliases", ())
        if isinstance(aliases, str):
            raise InvalidJobError("aliases", aliases, f"pass a list, such as [{aliases!r}]")
        self.aliases = tuple(checks.check_key(each, "aliases") for each in aliases)
        self._signature = Signature(self.name, function)
        retry = fields.get("retry")
        self._retry = None if retry is None else check_policy(retry)
        self._retry_on = _errors("retry_on", fields.get("retry_on"))
        self._dead_on = _errors("dead_on", fields.get("dead_on")) or ()
        for each in self._retry_on or ():
            if issubclass(each, self._dead_on):
                raise InvalidJobError("retry_on", each, "dead_on has it, too, and counts: leave it out of one of them")
        timeout = fields.get("timeout", DEFAULT)
        self._timeout_s = timeout if isinstance(timeout, Default) else checks.limit_s("timeout", timeout)
        self.is_async: Final = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(type(function), "__call__", None)  # noqa: B004  an object with an `async def __call__`
        )

    def __repr__(self) -> str:
        return f"<Task {self._signature.shown}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            message = f"a task has no {name!r}: set a call of it, as in scheduler.set(key, task.of(...), delay='30m')"
            raise AttributeError(message)

    def __reduce__(self) -> str:
        return cast("str", getattr(self, "__qualname__", self.name))

    def __call__(self, *args: _Q.args, **kwargs: _Q.kwargs) -> _R:
        return self._function(*args, **kwargs)

    def of(self, *args: _P.args, **kwargs: _P.kwargs) -> TaskCall:
        """
        Return a call with these arguments, for `set`.

        An omitted argument is not stored, so the function's default at the time of the run applies.

        Raises:
            TypeError: For arguments that the function does not take.
            InvalidJobError: For a value that its annotation does not allow, or that JSON cannot represent.
            MissingExtraError: If msgspec, of the extra "tasks", is not installed.
        """
        return TaskCall(self.name, self._signature.payload(args, kwargs), self._retry)

    def prepare(self) -> None:
        """
        Resolve the annotations, as `start` does.

        Raises:
            InvalidJobError: If an annotation cannot be resolved, or JSON cannot represent its type.
        """
        self._signature.prepare()

    def misfit(self, payload: Any) -> str | None:
        """
        Return the reason why the decoded *payload* does not fit the function, or None if it fits.

        Raises the errors of `prepare`.
        """
        return self._signature.misfit(payload)

    def is_final(self, error: BaseException) -> bool:
        """
        Return True if *error* must not be retried, according to `dead_on` and `retry_on`.
        """
        if isinstance(error, self._dead_on):
            return True
        return self._retry_on is not None and not isinstance(error, self._retry_on)

    def run(self, payload: Any, firing: Firing) -> object:
        """
        Run the function with a decoded *payload*.
        """
        args, kwargs = self._signature.arguments(payload, firing)
        return self._anyhow(*args, **kwargs)

    async def run_async(self, payload: Any, firing: Firing) -> object:
        """
        Await the function with a decoded *payload*.
        """
        args, kwargs = self._signature.arguments(payload, firing)
        result: Any = self._anyhow(*args, **kwargs)
        return await result

    def run_apart(self, payload: Any, firing: Firing) -> object:
        """
        Run the function in a handler process. Raise a FinalError for an error that must not be retried.
        """
        try:
            return self.run(payload, firing)
        except Exception as error:
            if self.is_final(error):
                raise FinalError from error
            raise

    def register(self, handlers: HandlerTarget, around: Around = lambda function: function) -> None:
        """
        Register the function with *handlers* under all its names, each attempt wrapped by *around*.

        Raises:
            InvalidJobError: If a name is taken, a limit is not positive, or a process cannot import the function.
        """
        fields = self._fields
        executor = fields.get("executor", "thread")
        run = self.run_apart if executor == "process" else around(self.run_async if self.is_async else self.run)
        names = (self.name, *self.aliases)
        limits = limits_in(handlers, fields.get("lane"), fields.get("concurrency", DEFAULT), fields.get("rate"))
        for name in names:
            if handlers.has(name):
                raise InvalidJobError("task", name, "there is a handler of that name: take another name")
        for name in names:
            handlers.register(
                name,
                run,
                self._retry,
                timeout_s=self._timeout_s,
                limits=limits,
                executor=executor,
                task=self,
            )

    @property
    def _anyhow(self) -> Callable[..., object]:
        return self._function


@overload
def task(function: WithFiring[_P, _R], /) -> Task[_P, Concatenate[Firing, _P], _R]: ...


@overload
def task(function: Callable[_P, _R], /) -> Task[_P, _P, _R]: ...


@overload
def task(function: None = None, /, **fields: Unpack[TaskFields]) -> TaskMaker: ...


def task(function: Callable[..., Any] | None = None, /, **fields: Unpack[TaskFields]) -> Any:
    """
    Make the decorated function a task, for schedulers that get the task by `Scheduler.register`.

    The arguments and errors are those of `Scheduler.task`, which also registers the task.
    """
    return made(function, fields, None)


def made(
    function: Callable[..., Any] | None, fields: TaskFields, keep: Callable[[Task[..., ..., Any]], object] | None
) -> Any:
    """
    Make *function* a task and pass the task to *keep*. Without *function*, return a decorator that does this.
    """
    check_names("task", fields, TaskFields.__annotations__)

    def make(function: Callable[..., Any]) -> Task[..., ..., Any]:
        task: Task[..., ..., Any] = Task(function, fields)
        if keep is not None:
            keep(task)
        return task

    return make if function is None else make(function)


def check_task(given: object) -> Task[..., ..., Any]:
    """
    Return *given* if it is a task; if not, raise an InvalidJobError with the remedy.
    """
    if not isinstance(given, Task):
        raise InvalidJobError("task", given, "pass a task, which @task makes of a function")
    return given


def names_of(task: Task[..., ..., Any]) -> tuple[str, ...]:
    """
    Return all names of *task*; raise an InvalidJobError if it is not a task.
    """
    return (check_task(task).name, *task.aliases)


def _name_of(function: Callable[..., Any], name: str | None) -> str:
    if name is not None:
        return checks.check_handler(checks.check_key(name, "name"))
    module = getattr(function, "__module__", None)
    own = getattr(function, "__qualname__", None)
    if not module or not own:
        raise InvalidJobError("task", function, "it has no name of its own: pass one, as in @task(name='cancel-order')")
    if module == "__main__":
        what = f"the main module of one program is not that of the next: pass a name, as in @task(name={own!r})"
        raise InvalidJobError("task", f"{module}.{own}", what)
    if "<" in own:
        what = "no other process finds a function inside another one: define it at the top of its module, or pass name="
        raise InvalidJobError("task", f"{module}.{own}", what)
    return checks.check_handler(f"{module}.{own}")


def _errors(name: str, given: Errors | None) -> tuple[type[BaseException], ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise InvalidJobError(name, given, "pass classes of exceptions, not their names")
    classes = tuple(given) if isinstance(given, Sequence) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidJobError(name, each, "pass classes of exceptions, such as (ConnectionError, TimeoutError)")
    return classes
