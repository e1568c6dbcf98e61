from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final, TypeAlias

from tickwheel.errors import ClosedError
from tickwheel.host.promise import Promise
from tickwheel.host.runtime import Runtime
from tickwheel.host.tally import WriterMetrics, WriterStats
from tickwheel.host.writer import Done, Writer
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Answer, Begin, Redate, SetAside, Settle, Write, key_of
from tickwheel.stores import Partitioned

__all__ = ["PartitionedWriter"]

_OwnWrite: TypeAlias = Begin | SetAside | Settle | Redate
_SHARE_MIN: Final = 1_000
"""Minimum number of callers' writes that may wait in each partition, even if many partitions share `waiting_max`."""


class PartitionedWriter:
    """
    Routes writes to one `Writer` per partition, so that no partition waits for another one. Callable from any thread.
    """

    def __init__(self, store: Partitioned, runtime: Runtime, *, waiting_max: int = 100_000, **options: Any) -> None:
        self._runtime = runtime
        self._partition_of = store.partition_of
        self._tally = WriterMetrics(runtime)
        self.times, self.sizes = self._tally.times, self._tally.sizes
        share = max(_SHARE_MIN, waiting_max // len(store.partitions))
        self._writers: list[Writer] = []
        try:
            for each in store.partitions:
                self._writers.append(Writer(each, runtime, waiting_max=share, tally=self._tally, **options))
        except BaseException:
            self.close()
            raise

    def submit(self, write: Write, timeout_s: float | None = None, *, waits: bool = False) -> Promise[Answer]:
        return self._writers[self._partition_of(key_of(write))].submit(write, timeout_s, waits=waits)

    def submit_together(self, writes: Sequence[Write]) -> Promise[list[Answer]]:
        # All writes of the batch are for one partition.
        return self._writers[self._partition_of(key_of(writes[0]))].submit_together(writes)

    def submit_many(
        self, writes: Sequence[Write], timeout_s: float | None = None, *, waits: bool = False
    ) -> Promise[list[Answer]]:
        """
        Queue many *writes*. If one partition fails or has no room, the writes to other partitions still take effect.
        """
        places: dict[int, list[int]] = {}
        for index, write in enumerate(writes):
            places.setdefault(self._partition_of(key_of(write)), []).append(index)
        if len(places) <= 1:
            return self._writers[next(iter(places), 0)].submit_many(writes, timeout_s, waits=waits)
        promise: Promise[list[Answer]] = Promise(self._runtime)
        kept: dict[int, Promise[list[Answer]]] = {}
        lock = self._runtime.lock()

        def take(number: int, part: Promise[list[Answer]]) -> None:
            with lock:  # partitions answer on their own threads, and the last one answers the caller
                kept[number] = part
                if len(kept) < len(places):
                    return
            error = next(filter(None, (each.exception() for each in kept.values())), None)
            if error is not None:
                promise.set_exception(error)
                return
            indexes = chain.from_iterable(places[number] for number in kept)
            answers = chain.from_iterable(each.result() for each in kept.values())
            promise.set_result([answer for _, answer in sorted(zip(indexes, answers, strict=True), key=itemgetter(0))])

        for number, indexes in places.items():
            part: Promise[list[Answer]]
            try:
                part = self._writers[number].submit_many([writes[index] for index in indexes], timeout_s)
            except (ClosedError, StoreError) as error:
                part = Promise(self._runtime)
                part.set_exception(error)
            part.add_done_callback(partial(take, number))
        return promise

    def post(self, writes: Sequence[_OwnWrite], done: Done, *, in_turn: bool = False) -> None:
        self._writers[writes[0].epoch % len(self._writers)].post(writes, done, in_turn=in_turn)

    def post_and_write(self, post: Callable[[], object]) -> None:
        """
        Call *post*. Each partition's own thread does the writes queued by *post*. This thread would do one at a time.
        """
        post()

    def resubmit(self, writes: Sequence[Write], done: Done) -> None:
        self._writers[self._partition_of(key_of(writes[0]))].resubmit(writes, done)

    def stats(self) -> WriterStats:
        return self._tally.stats

    def is_inside(self) -> bool:
        return any(writer.is_inside() for writer in self._writers)

    @property
    def waiting(self) -> int:
        return sum(writer.waiting for writer in self._writers)

    def close(self, timeout_s: float | None = None) -> bool:
        deadline = None if timeout_s is None else self._runtime.monotonic() + timeout_s
        were_written = [
            writer.close(None if deadline is None else max(0.0, deadline - self._runtime.monotonic()))
            for writer in self._writers
        ]
        return all(were_written)
