from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any

__all__ = ["Run"]


class Run(Coroutine[Any, Any, Any]):
    """
    Wraps a coroutine, and calls *then* when the coroutine ends, even if it is closed before its first step.

    If the coroutine never ends, *then* is called when this object is deleted. *then* is called once; if it is
    interrupted by an exception, it is called again. This is a class, because a `finally` in an `async def` would not
    run if the coroutine never started.
    """

    _then: Callable[[], object] | None = None

    def __init__(self, coroutine: Coroutine[Any, Any, Any], then: Callable[[], object]) -> None:
        self._then = then
        self._coroutine = coroutine

    def __del__(self) -> None:
        self._end()  # the coroutine was never awaited, because of an exception

    def __repr__(self) -> str:
        return f"<Run of {self._coroutine!r}>"

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            return (yield from self._coroutine.__await__())
        finally:
            self._end()

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(
        self,
        kind: BaseException | type[BaseException],
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        if value is None and traceback is None:
            return self._step(self._coroutine.throw, kind)
        return self._step(self._coroutine.throw, kind, value, traceback)

    def close(self) -> None:
        try:
            self._coroutine.close()
        finally:
            self._end()

    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        try:
            return step(*args)
        except BaseException:  # the coroutine has returned or raised
            self._end()
            raise

    def _end(self) -> None:
        then = self._then
        if then is not None:
            then()
            self._then = None
