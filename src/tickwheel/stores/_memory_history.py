from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest, nsmallest
from itertools import chain, islice, takewhile
from typing import Final

from tickwheel.jobs.history import ACTS_MAX
from tickwheel.jobs.model import HistoryRecord

__all__ = ["MemoryHistory"]

_EVER: Final = 2**63


class MemoryHistory:
    def __init__(self) -> None:
        self._records: dict[int, HistoryRecord] = {}
        self._by_key: dict[str, dict[int, HistoryRecord]] = {}
        self._number = 0

    def records(self) -> Iterable[HistoryRecord]:
        return self._records.values()

    def numbered(self, records: Iterable[HistoryRecord]) -> dict[int, HistoryRecord | None]:
        return {number: each._replace(number=number) for number, each in enumerate(records, self._number + 1)}

    def put(self, number: int, record: HistoryRecord | None) -> None:
        if record is not None:
            self._number = max(self._number, number)
            self._records[number] = record
            self._by_key.setdefault(record.key, {})[number] = record
            return
        key = self._records.pop(number).key
        del self._by_key[key][number]
        if not self._by_key[key]:
            del self._by_key[key]

    def of(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        newest = reversed(self._by_key.get(key, {}).values())
        return list(islice((each for each in newest if before is None or each.number < before), limit))

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        acts = (each for each in self._records.values() if each.is_logged)
        return nlargest(limit, (each for each in acts if since <= each.at < until), lambda each: (each.at, each.number))

    def surplus(self, since: int, per_key: int, total: int, limit: int) -> list[int]:
        records = self._records.values()
        going = list(takewhile(lambda record: record.at < since, islice(records, limit)))
        if not going:
            going = nsmallest(limit, self.acts(0, _EVER, len(self._records))[ACTS_MAX:], lambda each: each.number)
        if not going:
            long = (_surplus(of.values(), per_key) for of in self._by_key.values() if len(of) > per_key)
            going = list(islice(chain.from_iterable(long), limit))
        if not going:
            going = list(islice(_surplus(records, total), limit))
        return [record.number for record in going]


def _surplus(records: Iterable[HistoryRecord], most: int) -> list[HistoryRecord]:
    others = [each for each in records if not each.is_logged]
    return others[: max(0, len(others) - most)]
