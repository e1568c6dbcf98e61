"""
The handler target: functions of this process, by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from tickwheel.jobs.checks import check_handler, decode_payload
from tickwheel.jobs.errors import HandlerNotFoundError, InvalidJobError, error_text
from tickwheel.jobs.model import RetryPolicy
from tickwheel.jobs.near import near
from tickwheel.targets._around import Middleware, judging, within
from tickwheel.targets._processes import ProcessPool, check_importable, check_sendable
from tickwheel.targets.contract import DEFAULT, Call, Default, Limits

__all__ = ["HandlerTarget", "Middleware", "Typed", "name_of"]

_BOTH = 2


class Typed(Protocol):
    """
    The members of a task, a function whose payloads have the names and values of its arguments.
    """

    def prepare(self) -> None:
        """
        Resolve the annotations of the task's parameters. A second call is harmless.

        Raises:
            InvalidJobError: If an annotation cannot be resolved, or JSON cannot represent its type.
        """

    def misfit(self, payload: Any) -> str | None:
        """
        Return the reason why the decoded *payload* does not fit the parameters, or None if it does.

        Raises the errors of `prepare`.
        """

    def is_final(self, error: BaseException) -> bool:
        """
        Return True if *error* must not be retried.
        """


class HandlerTarget:
    """
    The registered handlers. Registering is possible before and after the start. Jobs wait for a missing handler.

    Args:
        usual_timeout_s: Default timeout of handlers; None for no limit.
        on_registered: Called when a handler is added.
    """

    def __init__(self, usual_timeout_s: float | None, on_registered: Callable[[], object] | None = None) -> None:
        self._usual_timeout_s = usual_timeout_s
        self._calls: dict[str, Call] = {}
        self._unsent: dict[str, Callable[..., Any]] = {}
        self._policies: dict[str, RetryPolicy] = {}
        self._limits: dict[str, Limits] = {}
        self._tasks: dict[str, Typed] = {}
        self._middleware: list[Middleware] = []
        self._processes = ProcessPool()
        self._on_registered = on_registered

    def __repr__(self) -> str:
        return f"<HandlerTarget of {', '.join(sorted(self._calls)) or 'no handlers'}>"

    def register(
        self,
        name: str,
        function: Callable[..., Any],
        retry: RetryPolicy | None = None,
        *,
        timeout_s: float | Default | None = DEFAULT,
        limits: Limits | None = None,
        executor: str = "thread",
        task: Typed | None = None,
    ) -> None:
        """
        Register *function* as the handler *name*. If *task* is given, payloads have the arguments of the task.

        Raises:
            InvalidJobError: If the name is taken or invalid, a limit is not positive, or a process cannot import
                *function*.
            TypeError: If *function* takes neither one nor two arguments, or is a generator.
        """
        _check_name(check_handler(name))
        if "<lambda>" in name or "<locals>" in name:
            raise InvalidJobError("handler", name, "no other process finds it by that: pass a name such as 'mail'")
        if name in self._calls:
            raise InvalidJobError("handler", name, "there is one of that name: take another name")
        is_task = hasattr(type(function), "of") and hasattr(function, "aliases")  # any object may have an `of`
        if task is None and is_task:
            raise InvalidJobError("handler", function, "it is a task, which needs no handler: set its of(...)")
        limits = limits or Limits()
        _check_limits(timeout_s, limits)
        seconds = self._usual_timeout_s if timeout_s is DEFAULT else timeout_s
        width = DEFAULT if limits.concurrency is DEFAULT else None  # concurrency= is a tighter bound
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            type(function).__call__  # an object with an `async def __call__`
        )
        wants_firing = _arguments(name, function) == _BOTH
        if executor == "process":
            check_importable(name, function if task is None else inspect.unwrap(function))
            self._unsent[name] = function
            self._calls[name] = Call(
                lambda *arguments: self._processes.run(
                    function, seconds, arguments if wants_firing else arguments[:-1], arguments[-1]
                ),
                wants_firing=True,  # a cancelled firing kills its process
                timeout_s=None,  # the process is killed at its timeout, and reports it
                width=width,
                in_process=True,
            )
        elif executor == "thread":
            self._calls[name] = Call(
                function, is_async=is_async, wants_firing=wants_firing, timeout_s=seconds, width=width
            )
        else:
            raise InvalidJobError("executor", executor, "pass 'thread' or 'process'")
        if task is not None:
            self._tasks[name] = task
        if retry is not None:
            self._policies[name] = retry
        if limits != Limits():
            self._limits[name] = limits
        if self._on_registered is not None:
            self._on_registered()

    def has(self, name: str) -> bool:
        return name in self._calls

    def names(self) -> list[str]:
        return list(self._calls)

    def policy(self, name: str) -> RetryPolicy | None:
        """
        Return the retry policy that the handler was registered with.
        """
        return self._policies.get(name)

    def limits(self, name: str) -> Limits | None:
        return self._limits.get(name)

    def add_middleware(self, middleware: Middleware) -> None:
        """
        Run each future attempt inside the context manager that *middleware* returns for it.
        """
        self._middleware = [*self._middleware, middleware]
        if self._on_registered is not None:
            self._on_registered()

    def prepare(self) -> None:
        for task in list(self._tasks.values()):
            task.prepare()

    def is_choosy(self, handler: str) -> bool:
        return handler in self._tasks

    def misfit(self, handler: str, payload: bytes) -> str | None:
        task = self._tasks.get(handler)
        if task is None:
            return None
        try:
            return task.misfit(decode_payload(payload))
        except Exception as error:  # noqa: BLE001  a type may raise anything; another node may succeed
            return error_text(error)

    def check(self, handler: str) -> None:
        _check_name(handler)
        if handler not in self._calls and (meant := near(handler, list(self._tasks))) is not None:
            raise InvalidJobError("handler", handler, f"there is none of that name here: did you mean {meant!r}?")

    def resolve(self, handler: str) -> Call:
        call = self._calls.get(handler)
        if call is None:
            raise HandlerNotFoundError(handler)
        unsent = self._unsent.get(handler)
        if unsent is not None:  # checked once, after the registration: only then does its module have the function
            check_sendable(handler, unsent)
            self._unsent.pop(handler, None)
        call = within(call, self._middleware)
        task = self._tasks.get(handler)
        if task is None or call.in_process:  # the handler's process decides: it has the error
            return call
        return replace(call, function=judging(call.function, task.is_final, is_async=call.is_async))

    def end_processes(self) -> None:
        """
        Kill busy processes, and let idle ones end. A stop of the scheduler calls this.
        """
        self._processes.close()

    async def close(self) -> None: ...


def _check_limits(timeout_s: float | Default | None, limits: Limits) -> None:
    for what, value in (("timeout", timeout_s), ("concurrency", limits.concurrency), ("rate", limits.rate)):
        kind, name_of_kind = (int, "an integer") if what == "concurrency" else (int | float, "a number")
        is_one = isinstance(value, kind) and not isinstance(value, bool)
        if value is not None and value is not DEFAULT and not (is_one and value > 0):
            raise InvalidJobError(what, value, f"pass {name_of_kind}, more than 0, or None")


def _check_name(name: str) -> None:
    if not name:
        raise InvalidJobError(
            "handler", name, "name the handler that is to run the job, or pass a call such as task.of(...)"
        )


def name_of(function: Callable[..., Any]) -> str:
    """
    Return the default name of the handler *function*.

    Raises:
        InvalidJobError: If another process could not import it: a lambda, or a nested function.
    """
    name = str(getattr(function, "__name__", ""))
    qualified = str(getattr(function, "__qualname__", name))
    if not name or name == "<lambda>" or name.startswith("<"):
        raise InvalidJobError(
            "handler", qualified or function, "it has no name of its own: pass one, as in handler('mail')"
        )
    return name


def _arguments(name: str, function: Callable[..., Any]) -> int:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        message = f"handler {name!r} is a generator, which nobody iterates: let it return"
        raise TypeError(message)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature, such as `set.add`
        return 1
    plain = [parameter for parameter in parameters if parameter.kind in positional]
    required = [parameter for parameter in plain if parameter.default is parameter.empty]
    takes_firing = len(plain) >= _BOTH and plain[1].name == "firing"
    has_rest = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    wants_keyword = any(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        for parameter in parameters
    )
    if len(required) > _BOTH or wants_keyword or not (plain or has_rest):
        message = f"handler {name!r} takes {len(required)} arguments: let it take (payload) or (payload, firing)"
        raise TypeError(message)
    return _BOTH if takes_firing or len(required) == _BOTH else 1
