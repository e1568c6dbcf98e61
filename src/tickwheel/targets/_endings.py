"""
Remembers ended leases, so that a worker that settles a firing late, or a second time, gets the result of the firing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from tickwheel.futures import Future
from tickwheel.jobs.errors import LeaseEndedError

__all__ = ["Endings"]

_ENDED_MAX: Final = 10_000
"""Number of recently ended firings to remember."""


class Endings:
    def __init__(self) -> None:
        self._ended: OrderedDict[str, str] = OrderedDict()
        self._settling: dict[str, tuple[str, Future[None]]] = {}

    def settle(self, fire_id: str, what: str) -> Future[None]:
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # the running future cannot be cancelled
        self._settling[fire_id] = what, done
        return done

    def end(self, fire_id: str, became: str | None) -> None:
        self._settling.pop(fire_id, None)
        if became is not None:
            self._ended[fire_id] = became
            self._ended.move_to_end(fire_id)
            if len(self._ended) > _ENDED_MAX:
                self._ended.popitem(last=False)

    def became(self, fire_id: str) -> str | None:
        settling = self._settling.get(fire_id)
        return self._ended.get(fire_id) if settling is None else settling[0]

    def repeated(self, fire_id: str, what: str) -> Future[None]:
        settling = self._settling.get(fire_id)
        if settling is not None and settling[0] == what:
            return settling[1]
        done: Future[None] = Future()
        became = self.became(fire_id)
        if became == what:  # repeated, because the first answer was lost
            done.set_result(None)
        else:
            done.set_exception(LeaseEndedError(fire_id, became))
        return done
