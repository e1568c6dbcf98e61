"""
Writes jobs within a caller's transaction.

The writes run in a savepoint, so that an error here leaves the transaction unchanged. They lock only the written jobs.
They send no NOTIFY, because NOTIFY would serialise all commits of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from tickwheel.jobs.errors import StoreError, TransactionError
from tickwheel.jobs.model import Answer, Write
from tickwheel.stores.postgres._batch import Batch, is_wrong_guess
from tickwheel.stores.postgres._queries import SQL
from tickwheel.stores.postgres._steps import Statement, Steps

__all__ = ["Database", "joined"]

Database = tuple[Any, ...]
"""Identity of the server, the database and the table."""

_TRIES: Final = 10
_OURS: Final = "leave conn out, or pass one that is connected to the jobs' own database"


def joined(
    writes: Sequence[Write], shard_of: Callable[[str], int], database: Database, url: str
) -> Steps[tuple[list[Answer], set[int], str]]:
    ((found,),) = yield [Statement(SQL["place"])]
    if found[:-1] != database:
        raise TransactionError("is connected to another database", _OURS)
    if found[-1] == "on":
        raise TransactionError("has a transaction that only reads", "begin one that may write")
    for _ in range(_TRIES):
        yield Statement("SAVEPOINT tickwheel")
        batch = Batch(shard_of, None, frozenset(), is_joined=True)
        try:
            answers = yield from batch.apply(writes, is_guessing=False)
        except BaseException as error:
            with suppress(Exception):  # a signal's handler may have interrupted a call: its exception is raised
                yield Statement("ROLLBACK TO SAVEPOINT tickwheel")
                yield Statement("RELEASE SAVEPOINT tickwheel")
            if not is_wrong_guess(error):
                raise
            continue
        yield Statement("RELEASE SAVEPOINT tickwheel")
        number = ""
        if batch.noted:
            ((found,),) = yield [Statement(SQL["transaction"])]
            number = found[0]
        return answers, batch.noted, number
    what = f"{url}: others keep making jobs of the same keys"
    raise StoreError(what, "try again", is_transient=True)
