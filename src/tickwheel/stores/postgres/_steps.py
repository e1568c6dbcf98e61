"""
The statements of a transaction as a generator, which pipelines, cursors and coroutines can all execute.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from tickwheel.stores.postgres._connections import Connection

__all__ = ["Rows", "Statement", "Steps", "drive", "run", "run_async"]

_T = TypeVar("_T")


class Statement(NamedTuple):
    text: str
    values: Sequence[Any] | dict[str, Any] = ()


Rows: TypeAlias = list[tuple[Any, ...]]

Steps: TypeAlias = Generator[Statement | list[Statement], list[Rows], _T]
"""A generator of statements. It receives the rows of those statements that it yields in a list."""


def drive(
    steps: Steps[_T], execute: Callable[[Statement], object], fetch: Callable[[list[Statement]], list[Rows]]
) -> _T:
    try:
        asked = next(steps)
        while True:
            found: list[Rows] = []
            try:
                if isinstance(asked, list):
                    found = fetch(asked)
                else:
                    execute(asked)
            except BaseException as error:  # noqa: BLE001 - it is raised where the statement was yielded
                asked = steps.throw(error)
            else:
                asked = steps.send(found)
    except StopIteration as end:
        result: _T = end.value
        return result


def run(connection: Connection, steps: Steps[_T], *, is_cursor: bool = False) -> _T:
    """
    Execute the statements of *steps* in order. If *is_cursor* is True, fetch each result before the next statement.
    """

    def fetch(asked: list[Statement]) -> list[Rows]:
        if is_cursor:
            return [connection.execute(each.text, each.values).fetchall() for each in asked]
        cursors = [connection.execute(each.text, each.values) for each in asked]
        return [cursor.fetchall() for cursor in cursors]

    return drive(steps, lambda each: connection.execute(each.text, each.values), fetch)


async def run_async(connection: Any, steps: Steps[_T]) -> _T:
    try:
        asked = next(steps)
        while True:
            found: list[Rows] = []
            try:
                for each in asked if isinstance(asked, list) else [asked]:
                    cursor = await connection.execute(each.text, each.values)
                    if isinstance(asked, list):
                        found.append(await cursor.fetchall())
            except BaseException as error:  # noqa: BLE001 - it is raised where the statement was yielded
                asked = steps.throw(error)
            else:
                asked = steps.send(found)
    except StopIteration as end:
        result: _T = end.value
        return result
