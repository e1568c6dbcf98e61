"""
A film of a wheel at work. Every step shows the timers that have moved, their new places, and the reason.

A step is a document with short names, because a page has thousands of steps:

    t    nanoseconds since the film began          m    [timer, ring, slot] of each timer that has moved
    k    set, move, cancel, cascade, fire          p    [ring, slot] of each pointer that has moved
    x    a description of the event                s    [ring, slots, slot_ns] of each ring that is new or changed
    y    the number of the reason in `why`         c    [comparisons, written places, cache lines] so far

The ring is -1 if the timer has fired, and -2 if it was cancelled. The film runs a real wheel, which reports the place
of each entry (`where`). Comparisons are counted as they happen. For a sort, the minimum is counted: one comparison for
each pair of neighbours. The binary search in a slot of a calendar queue is not counted. Cache lines are counted as if
the structure were written in C. Each entry that is read or written is one line, and the bits of each ring are one line.
Eight neighbouring places of a heap, or slots of a ring, share a line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel.lab._counting import Comparisons, counted
from tickwheel.lab._faulty import RawSlotWheel
from tickwheel.lab._quantities import duration
from tickwheel.lab.trace import TraceOperation
from tickwheel.typing import Expired
from tickwheel.wheels import NativeWheel
from tickwheel.wheels.view import RingView, ShownWheel

__all__ = ["CANCELLED", "FIRED", "Film", "Recorder"]

Film = dict[str, Any]
Where = tuple[int, int]

FIRED: Final = -1
CANCELLED: Final = -2
LINE: Final = 8
"""Number of places or slot heads (eight bytes each) per cache line of 64 bytes."""
SECOND_US: Final = 1_000_000
NAMED: Final = 3


class Recorder:
    def __init__(self, wheel: ShownWheel, most: int) -> None:
        self.steps: list[dict[str, Any]] = []
        self._wheel = wheel
        self._most = most
        self._is_lazy = isinstance(wheel, NativeWheel | RawSlotWheel)  # a move may change only the deadline
        self._ids: dict[str, int] = {}
        self._timers: list[str] = []
        self._numbers: dict[int, int] = {}
        self._places: dict[int, Where] = {}
        self._left: set[int] = set()
        self._shape: list[tuple[int, int]] = []
        self._names: list[str] = []
        self._pointers: list[int | None] = []
        self._counts = [0, 0, 0]
        self._reasons: dict[str, int] = {}
        self._cascades = 0
        self._began = self._now = 0

    def play(self, operations: Sequence[TraceOperation], progress: Callable[[int], object] | None = None) -> Film:
        """
        Return the film of the trace, up to the maximum of steps. *progress* is called with the number of steps so far.
        """
        self._began = operations[0].t_us * 1_000 if operations else 0
        self._advance(self._began)
        self._step(self._began, "start", "an empty wheel", "", Comparisons())
        for operation in operations:
            self._go_to(operation.t_us * 1_000)
            if self._is_full():
                break
            self._do(operation)
            if progress is not None:
                progress(len(self.steps))
        while not self._is_full() and (due_at := self._wheel.next_expiration()) is not None:
            self._go_to(due_at)
        return {
            "timers": self._timers,
            "rings": self._names,
            "why": list(self._reasons),
            "tick_ns": self._wheel.abilities.tick_ns,
            "steps": self.steps[: self._most],
        }

    def _is_full(self) -> bool:
        return len(self.steps) >= self._most

    def _do(self, operation: TraceOperation) -> None:
        now, key = operation.t_us * 1_000, operation.key
        entry = self._ids.get(key)
        deadline = now + operation.delay_us * 1_000
        delay = _delay(operation.delay_us)
        with counted() as comparisons:
            if operation.op == "C":
                kind = "cancel" if entry is not None and self._wheel.cancel(entry) else ""
            elif entry is not None and self._wheel.reschedule(entry, deadline):
                kind = "move"
            else:
                kind, entry = "set", self._wheel.insert(deadline, key)
                self._ids[key] = entry
                self._numbers[entry] = len(self._timers)
                self._timers.append(key)
        if not kind or entry is None:
            return
        before, after = self._places.get(entry), self._wheel.where(entry)
        why = self._why(kind, before, after, comparisons.count)
        if self._is_lazy:
            comparisons.ids.add(entry)
        elif kind == "move":
            self._places.pop(entry, None)  # record the place again, even if it stays the same
        what = {"set": f"set {key} to fire in {delay}", "move": f"move {key} to {delay} from now"}
        self._step(now, kind, what.get(kind, f"cancel {key}"), why, comparisons, gone={entry: CANCELLED})

    def _why(self, kind: str, before: Where | None, after: Where | None, comparisons: int) -> str:
        if kind == "cancel":
            return "It leaves at once, and nothing of it stays behind."
        if after is None:
            return "It is never due, so it waits outside of the rings."
        ring = self._wheel.rings()[after[0]]
        if not ring.slot_ns:
            where = "of a tree" if ring.name.startswith("depth") else "of what is due next"
            compared = f", after {_times(comparisons, 'comparison')}" if comparisons else ""
            return f"It takes its place in the order {where}: {ring.name}{compared}."
        span = duration(ring.slot_ns)
        if kind == "move" and before == after:
            does = (
                "stays where it is: only its deadline is written"
                if self._is_lazy
                else "is filed again, in the same slot"
            )
            return f"It {does}, in {ring.name}."
        return f"It drops into {ring.name}, slot {after[1]}: the finest ring that reaches that far; a slot is {span}."

    def _go_to(self, now: int) -> None:
        while (due_at := self._wheel.next_expiration()) is not None and due_at <= now:
            due_at = max(due_at, self._now)  # with a delay of 0, the timer was due when it was set
            self._cascade_until(due_at - 1)
            with counted() as comparisons:
                expired = self._wheel.advance(due_at)
            self._now = due_at
            if expired:
                self._fired(due_at, expired, comparisons)
            else:
                why = "What is in it was moved meanwhile, and is only now filed where it belongs."
                self._step(due_at, "cascade", "a slot begins, and nothing in it is due", why, comparisons)
            if self._is_full():
                return
        self._cascade_until(now)

    def _fired(self, now: int, expired: Sequence[Expired], comparisons: Comparisons) -> None:
        keys = [entry.payload for entry in expired]
        more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
        late = [now - entry.deadline for entry in expired]
        if late and min(late) < 0:
            why = f"Too early, by {duration(-min(late))}: the deadline has not come."
        elif late and max(late) > 0:
            why = f"The tick has ended: up to {duration(max(late))} after the deadline, and never before it."
        else:
            why = "The deadline has come, to the nanosecond."
        gone = {entry.id: FIRED for entry in expired}
        self._step(now, "fire", f"fire {', '.join(keys[:NAMED])}{more}", why, comparisons, gone=gone)

    def _cascade_until(self, until: int) -> None:
        # A slot is emptied when the pointer reaches it, so advance slot by slot to record each step.
        while (begins := self._next_beginning()) is not None and begins <= until and not self._is_full():
            waiting = self._waiting()
            comparisons = self._advance(begins)
            cascades = self._wheel.stats()["cascades"] - self._cascades
            if cascades:
                again = f"{_times(cascades, 'timer')} filed again"
                why = "The pointer has come to a coarse slot: what was in it is now near, and a finer ring holds it."
                self._step(begins, "cascade", f"cascade: {again}, in a finer ring", why, comparisons)
            elif (more := self._waiting() - waiting) > 0:
                why = "Its slot has few timers, so they need no finer one: they are put in order once, and wait."
                what = f"a slot begins: {more} sorted, to fire each at its instant"
                self._step(begins, "cascade", what, why, comparisons)
        self._advance(until)

    def _waiting(self) -> int:
        # Number of entries that have left the slots but are not due: the native wheel sorts a slot when it begins.
        return sum(self._wheel.rings()[0].counts.values())

    def _advance(self, now: int) -> Comparisons:
        if now < self._now:
            return Comparisons()  # the call must not deliver due entries
        self._now = now
        with counted() as comparisons:
            expired = self._wheel.advance(now)
        assert not expired, "what is due is fired, in a step of its own"
        return comparisons

    def _next_beginning(self) -> int | None:
        # The starts of occupied slots in all rings except the finest; a single ring has no cascade.
        begins = []
        rings = [(ring, ring.pointer) for ring in self._wheel.rings() if ring.pointer is not None]
        for ring, pointer in rings if len(rings) > 1 else ():
            if ring.slot_ns > self._wheel.abilities.tick_ns:
                ahead = [(index - pointer) % ring.slots or ring.slots for index in ring.counts]
                begins += [(self._now // ring.slot_ns + slots) * ring.slot_ns for slots in ahead]
        return min(begins, default=None)

    def _step(
        self, now: int, kind: str, what: str, why: str, comparisons: Comparisons, *, gone: dict[int, int] | None = None
    ) -> None:
        self._cascades = self._wheel.stats()["cascades"]
        views = self._wheel.rings()
        reason = self._reasons.setdefault(why, len(self._reasons))
        step: dict[str, Any] = {"t": now - self._began, "k": kind, "x": what, "y": reason}
        moved = self._moved(gone or {})
        self._count(moved, comparisons, views)
        step["m"] = [[self._numbers[entry], *place] for entry, place in moved.items()]
        step |= self._shown(views)
        step["c"] = list(self._counts)
        self.steps.append({name: value for name, value in step.items() if value or name in {"t", "y", "c"}})

    def _moved(self, gone: dict[int, int]) -> dict[int, Where]:
        moved = {}
        for entry in self._numbers.keys() - self._left:
            place = self._wheel.where(entry)
            if place is None and entry in gone:
                place = (gone[entry], 0)
                self._left.add(entry)
            if place is not None and place != self._places.get(entry):
                moved[entry] = place
        return dict(sorted(moved.items()))

    def _count(self, moved: dict[int, Where], comparisons: Comparisons, views: Sequence[RingView]) -> None:
        placed = {entry: place for entry, place in moved.items() if place[0] >= 0}
        lines: set[tuple[str, int, int]] = {("entry", entry, 0) for entry in moved.keys() | comparisons.ids}
        ended = 0
        for entry, place in moved.items():
            before = self._places.get(entry)
            for ring, slot in filter(None, (before, placed.get(entry))):
                if ring < len(views) and views[ring].slot_ns:
                    lines |= {("slots", ring, slot // LINE), ("bits", ring, 0)}
                else:
                    lines.add(("places", 0, ((1 << ring) - 1 + slot) // LINE))
            was_filed = before is not None and before[0] < len(views) and views[before[0]].slot_ns > 0
            ended += was_filed and place[0] in {FIRED, 0}
        self._counts[0] += comparisons.count + max(ended - 1, 0)
        self._counts[1] += len(placed)
        self._counts[2] += len(lines)
        self._places.update(placed)

    def _shown(self, views: Sequence[RingView]) -> dict[str, Any]:
        # Record the rings that differ from the last step. A heap may have fewer levels, and a calendar other slots.
        shapes, pointers = [], []
        for number, view in enumerate(views):
            if number == len(self._shape):
                self._shape.append((0, 0))
                self._names.append(view.name)
                self._pointers.append(None)
            if (view.slots, view.slot_ns) != self._shape[number]:
                self._shape[number] = view.slots, view.slot_ns
                shapes.append([number, view.slots, view.slot_ns])
            if view.pointer != self._pointers[number]:
                self._pointers[number] = view.pointer
                pointers.append([number, view.pointer])
        return {"s": shapes, "p": pointers}


def _delay(us: int) -> str:
    if us >= 60 * SECOND_US and us % SECOND_US == 0:
        return duration(us * 1_000)
    return f"{us / 1e6:.6g} s" if us >= SECOND_US else f"{us / 1e3:.6g} ms"


def _times(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
