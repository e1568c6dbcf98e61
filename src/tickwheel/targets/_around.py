from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any, TypeAlias

from tickwheel.jobs.errors import JobStoppedError
from tickwheel.targets.contract import Abandoned, Call, FinalError, Firing

__all__ = ["IsFinal", "Middleware", "judging", "within"]

Middleware: TypeAlias = Callable[[Firing], AbstractContextManager[object]]
"""Returns the context manager in which an attempt runs."""
IsFinal: TypeAlias = Callable[[BaseException], bool]
"""Returns True if an error of a handler must not be retried."""


def within(call: Call, middleware: Sequence[Middleware]) -> Call:
    if not middleware:
        return call
    function, wants_firing = call.function, call.wants_firing

    def entered(stack: ExitStack, payload: object, firing: Firing) -> tuple[object, ...]:
        for each in middleware:
            stack.enter_context(each(firing))
        return (payload, firing) if wants_firing else (payload,)

    if call.is_async:

        async def awaited(payload: object, firing: Firing) -> object:
            with ExitStack() as stack:
                return await function(*entered(stack, payload, firing))
            return None  # a middleware has suppressed its error

        return replace(call, function=awaited, wants_firing=True)

    def called(payload: object, firing: Firing) -> object:
        with ExitStack() as stack:
            return function(*entered(stack, payload, firing))
        return None  # as above

    return replace(call, function=called, wants_firing=True)


def judging(function: Callable[..., Any], is_final: IsFinal, *, is_async: bool) -> Callable[..., Any]:
    if is_async:

        async def awaited(*arguments: object) -> object:
            try:
                return await function(*arguments)
            except Exception as error:
                if is_end(error, is_final):
                    raise FinalError from error
                raise

        return awaited

    def called(*arguments: object) -> object:
        try:
            return function(*arguments)
        except Exception as error:
            if is_end(error, is_final):
                raise FinalError from error
            raise

    return called


def is_end(error: Exception, is_final: IsFinal) -> bool:
    """
    Return True if *error* must not be retried; always False for an error that interrupts an attempt from outside.
    """
    return not isinstance(error, Abandoned | FinalError | JobStoppedError) and is_final(error)
