from __future__ import annotations

import sys
from asyncio import CancelledError
from typing import Final

__all__ = ["settle"]

IS_DEEP: Final = sys.version_info >= (3, 13)
"""True from Python 3.13 on, where a cancellation in another exception's `__context__` also becomes a TimeoutError."""


def settle(kind: type[BaseException], error: BaseException) -> None:
    """
    Raise a TimeoutError if an expired `timeout` block ended with a cancellation.
    """
    if issubclass(kind, CancelledError) if IS_DEEP else kind is CancelledError:
        raise TimeoutError from error
    if IS_DEEP:
        _insert(error)
        for inner in error.exceptions if isinstance(error, ExceptionGroup) else ():
            _insert(inner)


def _insert(error: BaseException) -> None:
    """
    Insert a TimeoutError before the first cancellation in *error*'s chain of `__context__`.
    """
    while error.__context__ is not None:
        if isinstance(error.__context__, CancelledError):
            timeout = TimeoutError()
            timeout.__context__ = timeout.__cause__ = error.__context__
            error.__context__ = timeout
            return
        error = error.__context__
