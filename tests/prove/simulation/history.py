"""
The events of a simulation, in order. They are the only input of the checker.

Each event is one line of the history, and its first word is the kind. The same seed gives the same bytes:

    call      a caller made a request
    answer    a caller got the result, or the error
    commit    one write took effect in the store
    grant     a shard got a new owner, or has none
    fire      a handler began
    end       the engine reported the end of an attempt, which it had written
    return    a long handler returned
    extend    a pull worker was promised more time for its lease
    take      an owner read the notifications of a shard
    fault     a fault began or ended
    leave     the running jobs of a shard stay with their owner
    take up   a node got jobs that only it can run
    deploy    a node has these handlers from now on
    scope     these scopes are paused from now on
    finish    all faults have ended, and the remaining jobs had time to fire
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tickwheel.jobs.model import Answer, Write

__all__ = [
    "Answered",
    "Called",
    "Committed",
    "Deployed",
    "Ended",
    "Event",
    "Extended",
    "Fault",
    "Finished",
    "Fired",
    "Freed",
    "Granted",
    "History",
    "Left",
    "Returned",
    "Scoped",
    "Taken",
    "TakenUp",
]


@dataclass(frozen=True, slots=True)
class Event:
    """
    An event.

    Attributes:
        at: The true time, in ns since the simulation began.
    """

    at: int


@dataclass(frozen=True, slots=True)
class Called(Event):
    call: int
    machine: str
    verb: str
    key: str


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """
    The caller got an answer or an error. The `outcome` of an error is "unknown" or "refused".
    """

    call: int
    outcome: str
    generation: int
    due_at: int


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """
    A write took effect, when the store's clock read `store_ms`.
    """

    machine: str
    store_ms: int
    write: Write
    answer: Answer


@dataclass(frozen=True, slots=True)
class Granted(Event):
    """
    A shard has a new owner.
    """

    shard: int
    epoch: int
    machine: str
    rescued: int


@dataclass(frozen=True, slots=True)
class Freed(Event):
    """
    A shard has no owner. Until it has one, its jobs cannot begin or be settled.
    """

    shard: int


@dataclass(frozen=True, slots=True)
class Left(Event):
    """
    A shard was handed over, and its running jobs were moved to a draining shard.

    The owner and the epoch of these jobs stay the same.
    """

    shard: int
    tail: int


@dataclass(frozen=True, slots=True)
class TakenUp(Event):
    """
    Unroutable jobs were claimed into a shard of a node that can run them.
    """

    shard: int
    epoch: int
    machine: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deployed(Event):
    """
    From now on a node has exactly these handlers.

    Jobs of the handlers in *fading* may still be staged, although the node has just lost these handlers. The node's
    clock is *slow_ppm* millionths slower than the server's.
    """

    machine: str
    handlers: tuple[str, ...]
    fading: tuple[str, ...] = ()
    slow_ppm: int = 0


@dataclass(frozen=True, slots=True)
class Scoped(Event):
    """
    From now on, exactly these scopes are paused.
    """

    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Taken(Event):
    """
    An owner read the notifications of a shard, which are not delivered again.
    """

    shard: int
    epoch: int
    machine: str


@dataclass(frozen=True, slots=True)
class Fired(Event):
    """
    A handler began.
    """

    machine: str
    key: str
    generation: int
    attempt: int
    due_at: int
    store_ms: int
    payload: Any


@dataclass(frozen=True, slots=True)
class Extended(Event):
    """
    A worker was promised more time for a leased attempt.
    """

    machine: str
    key: str
    generation: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Returned(Event):
    """
    A long handler returned, because it had finished or was asked to stop.
    """

    machine: str
    key: str
    generation: int
    attempt: int
    store_ms: int


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """
    The engine reported that the outcome of an attempt is written.
    """

    machine: str
    key: str
    generation: int
    attempt: int
    kind: str


@dataclass(frozen=True, slots=True)
class Fault(Event):
    """
    A fault began or, if `is_over` is true, ended.
    """

    what: str
    is_over: bool = False

    @property
    def server_step_ns(self) -> int:
        """
        Nanoseconds by which a database's clock was set. For any other fault this is 0.
        """
        words = self.what.split()
        return int(words[2]) if words[:2] == ["step", "server"] else 0


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """
    All faults have ended, and the remaining jobs had time to fire.
    """

    store_ms: int


class History:
    """
    The events of one simulation.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = list(events)
        self.calls_made: list[str] = []
        """
        The names of all store calls in order.

        Any of these calls can be made to fail.
        """

    def add(self, event: Event) -> None:
        self.events.append(event)

    def to_bytes(self) -> bytes:
        """
        Return the whole history as text.
        """
        return "\n".join(map(repr, self.events)).encode()

    def digest(self) -> str:
        """
        Return a hash of the history.
        """
        return sha256(self.to_bytes()).hexdigest()
