"""
A design at work on a trace, as one HTML page that can be stepped, slowed and sped up.

The page holds frames: after each operation, each wake-up and each cascade, how many entries every slot of every ring
holds, and where the pointers stand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from tickwheel.lab.designs import Design
from tickwheel.lab.trace import TraceOperation
from tickwheel.wheels import CARDS
from tickwheel.wheels._card import Load

__all__ = ["Recorder", "render_watch", "small"]

FRAMES: Final = 600


def small(design: Design, load: Load) -> Design:
    """
    Return *design* with rings small enough to be looked at, where its geometry was not given.

    Delays are a turn or two of the finest ring, so that slots come round, and cascade.
    """
    return Design(design.name, {**CARDS[design.name].shown(load), **design.options})


class Recorder:
    """
    Plays a trace on a design and takes a frame of whatever happens.

    Attributes:
        frames: What happened, when, and what every ring then held.
        shape: What the rings are.
    """

    def __init__(self, design: Design, frames: int = FRAMES) -> None:
        self._wheel = design.make()
        self._most = frames
        self._ids: dict[str, int] = {}
        self._cascades = 0
        self._now = 0
        self.frames: list[dict[str, Any]] = []
        self.shape: list[dict[str, Any]] = []

    def play(
        self, operations: Sequence[TraceOperation], progress: Callable[[int], object] | None = None
    ) -> list[dict[str, Any]]:
        """
        Play until the trace or the frames are at their end, and return the frames.

        Args:
            operations: A trace.
            progress: Called with the number of frames so far, after each operation.
        """
        start = operations[0].t_us * 1_000 if operations else 0
        self._advance(start)
        self._frame(start, "start", "an empty wheel")
        for operation in operations:
            self._go_to(operation.t_us * 1_000)
            if len(self.frames) >= self._most:
                break
            self._do(operation)
            if progress is not None:
                progress(len(self.frames))
        while len(self.frames) < self._most and (due_at := self._wheel.next_expiration()) is not None:
            self._go_to(due_at)
        return self.frames

    def _do(self, operation: TraceOperation) -> None:
        now, key = operation.t_us * 1_000, operation.key
        entry = self._ids.get(key)
        deadline = now + operation.delay_us * 1_000
        delay = f"{operation.delay_us / 1e6:.6g} s"
        if operation.op == "C":
            if entry is not None and self._wheel.cancel(entry):
                self._frame(now, "cancel", f"cancel {key}")
        elif entry is not None and self._wheel.reschedule(entry, deadline):
            self._frame(now, "move", f"move {key} to {delay} from now")
        else:
            self._ids[key] = self._wheel.insert(deadline, key)
            self._frame(now, "set", f"set {key} to fire in {delay}")

    def _go_to(self, now: int) -> None:
        while (due_at := self._wheel.next_expiration()) is not None and due_at <= now:
            due_at = max(due_at, self._now)  # a delay of nothing was due when it was set
            self._cascade_until(due_at - 1)
            expired = self._wheel.advance(due_at)
            self._now = due_at
            keys = [entry.payload for entry in expired]
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""  # noqa: PLR2004 three are named
            self._frame(due_at, "fire", f"fire {', '.join(keys[:3])}{more}")
            if len(self.frames) >= self._most:
                return
        self._cascade_until(now)

    def _cascade_until(self, until: int) -> None:
        # A slot is emptied when the pointer comes to it: go from one beginning of a slot to the next, to see it happen.
        while (begins := self._next_beginning()) is not None and begins <= until:
            waiting = self._waiting()
            self._advance(begins)
            cascades = self._wheel.stats()["cascades"] - self._cascades
            if cascades:
                self._frame(begins, "cascade", f"cascade: {cascades} filed again, in a finer ring")
            elif (more := self._waiting() - waiting) > 0:
                self._frame(begins, "cascade", f"a slot begins: {more} sorted, to fire each at its instant")
        self._advance(until)

    def _waiting(self) -> int:
        # What has left the slots and is not due: the native wheel sorts a slot when it begins.
        return sum(self._wheel.rings()[0].counts.values())

    def _advance(self, now: int) -> None:
        if now < self._now:
            return  # what is due is not to be delivered on the way to it
        self._now = now
        expired = self._wheel.advance(now)
        assert not expired, "what is due is fired, in a frame of its own"

    def _next_beginning(self) -> int | None:
        # Of an occupied slot in a ring that is not the finest; one ring alone has nothing to cascade into.
        begins = []
        rings = [(ring, ring.pointer) for ring in self._wheel.rings() if ring.pointer is not None]
        for ring, pointer in rings if len(rings) > 1 else ():
            if ring.slot_ns > self._wheel.abilities.tick_ns:
                ahead = [(index - pointer) % ring.slots or ring.slots for index in ring.counts]
                begins += [(self._now // ring.slot_ns + slots) * ring.slot_ns for slots in ahead]
        return min(begins, default=None)

    def _frame(self, now: int, kind: str, text: str) -> None:
        self._cascades = self._wheel.stats()["cascades"]
        views = self._wheel.rings()
        rings = [[ring.pointer, sorted(ring.counts.items())] for ring in views]
        self.frames.append({"t": now, "kind": kind, "text": text, "pending": len(self._wheel), "rings": rings})
        # Some designs grow as they go; none changes the rings it has.
        self.shape += [
            {"name": ring.name, "slots": ring.slots, "slot_ns": ring.slot_ns} for ring in views[len(self.shape) :]
        ]


def render_watch(
    trace: str,
    design: Design,
    operations: Sequence[TraceOperation],
    frames: int = FRAMES,
    progress: Callable[[int], object] | None = None,
) -> str:
    """
    Return the page.

    Args:
        trace: What to call the trace.
        design: A design, with small rings (see `small`).
        operations: The trace, of which as much is played as fills the frames.
        frames: How many at most.
        progress: Called with the number of frames so far.

    Raises:
        SpanExceededError: If it cannot hold a delay.
    """
    recorder = Recorder(design, frames)
    played = recorder.play(operations, progress)
    document = json.dumps({"shape": recorder.shape, "frames": played}, separators=(",", ":"))
    page = files("tickwheel.lab").joinpath("watch.html").read_text("utf-8")
    fields = {"design": escape(str(design)), "trace": escape(trace), "document": document.replace("</", "<\\/")}
    for name, content in fields.items():
        page = page.replace("{{" + name + "}}", content)
    return page
