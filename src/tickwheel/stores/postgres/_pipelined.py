"""
A transaction whose statements are sent without waiting, and without the driver's cursors.

Each statement is prepared once on its connection. The client waits for the server only to read rows, and at the commit.
Each such wait costs one round trip.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tickwheel.stores.postgres._prepared import Prepared, next_result, sent
from tickwheel.stores.postgres._steps import Rows, Statement, Steps, drive

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

__all__ = ["Pipelined"]

_T = TypeVar("_T")

_PIPELINE_SYNC: Final = 10  # as in the library's documentation


class Pipelined:
    """
    One transaction, on a connection that has no other user. *is_committing* is True if the commit may have been sent.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._prepared: Prepared = connection.prepared
        self._sent: list[str] = []
        self._syncs = 0
        self.is_committing = False

    def run(self, begins: Sequence[str], steps: Steps[_T]) -> _T:
        """
        Execute *begins* (the statements that begin the transaction), *steps* and the commit.

        After an error the transaction may be open, or the connection closed.
        """
        self._prepared.forget_unsure()
        self._pgconn.enter_pipeline_mode()
        try:
            for text in begins:
                self.send(text)
            result = drive(steps, lambda each: self.send(each.text, each.values), self._fetch)
            self._connection.has_warned, self.is_committing = False, True
            self.send("COMMIT")
            self._sync()
            self._connection.wait(self._results())
            self._connection.wait(self._rest())
        except BaseException:
            self._abandon()
            raise
        self._pgconn.exit_pipeline_mode()
        return result

    def _abandon(self) -> None:
        with suppress(Exception):
            if not self._syncs:
                self._sync()
            self._connection.wait(self._rest())
            self._pgconn.exit_pipeline_mode()
            return
        self._connection.close()

    def _sync(self) -> None:
        self._syncs += 1
        self._pgconn.pipeline_sync()

    def send(self, text: str, values: Any = ()) -> None:
        if self._prepared.send_new(text):
            self._sent.append(text)
        self._prepared.send(text, values)
        self._sent.append("")

    def _fetch(self, asked: list[Statement]) -> list[Rows]:
        for each in asked:
            self.send(each.text, each.values)
        self._pgconn.send_flush_request()
        results: list[PGresult] = self._connection.wait(self._results())
        return [self._prepared.rows_of(result) for result in results[-len(asked) :]]

    def _results(self) -> Generator[int, int, list[PGresult]]:
        yield from sent(self._pgconn)
        results = []
        while self._sent:
            result = self._prepared.check((yield from next_result(self._pgconn)))
            text = self._sent[0]
            yield from next_result(self._pgconn)  # the end of this statement's results
            del self._sent[0]
            if text:
                self._prepared.confirm(text)
            else:
                results.append(result)
        return results

    def _rest(self) -> Generator[int, int, None]:
        yield from sent(self._pgconn)
        was_last = False
        while self._syncs:
            result = yield from next_result(self._pgconn)
            if result is not None and result.status == _PIPELINE_SYNC:
                self._syncs -= 1
            elif result is None and was_last:  # no statement follows
                return
            was_last = result is None
