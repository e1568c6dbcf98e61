"""
Write the drawings of docs/explanation, and pages on which wheels are animated, from the contents of real wheels.

    python scripts/drawings.py docs/explanation
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tickwheel.lab._quantities import duration
from tickwheel.lab.designs import Design
from tickwheel.lab.film import FIRED, Recorder
from tickwheel.lab.generate import Load, generate
from tickwheel.lab.trace import TraceOperation
from tickwheel.lab.tune import facts_of
from tickwheel.lab.watch import render_watch, small
from tickwheel.wheels import CARDS, HeapWheel, HierarchicalWheel, NativeWheel, RoundsWheel, SingleWheel
from tickwheel.wheels.cascading import BITS, SHIFTS

SECOND = 1_000_000_000
WIDTH = 640
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #5c6670 } .n { font-weight: 600; fill: #1a1f24 } .t { font-size: 11px }
.s { fill: #eef3f7; stroke: #b9c4cd } .f { fill: #0072b2; stroke: #b9c4cd }
.w { fill: #fff; font-weight: 600; font-size: 11px }
.h { stroke: #d55e00; stroke-width: 2.5; stroke-linecap: round } .l { stroke: #b9c4cd }
.b { fill: none; stroke: #dde6ed }
.a { stroke: #d55e00; fill: none; stroke-width: 1.6; marker-end: url(#m) }
@media (prefers-color-scheme: dark) {
  text { fill: #98a2ac } .n { fill: #e6e9ec } .s { fill: #26303a; stroke: #4a5661 } .f { stroke: #4a5661 }
  .b { stroke: #2c3741 }
}
</style><defs><marker id="m" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0 8 4 0 8z" fill="#d55e00"/></marker></defs>"""


def svg(height: int, title: str, *parts: str) -> str:
    """
    Return a whole drawing as SVG; *parts* are its elements.
    """
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"><title>{title}</title>'
    return f"{head}{STYLE}\n" + "\n".join(parts) + "\n</svg>\n"


def text(left: float, top: float, words: object, kind: str = "", *, anchor: str = "middle") -> str:
    """
    Return a text element, which is centered on *left* unless *anchor* says otherwise.
    """
    return f'<text class="{kind}" x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}">{words}</text>'


def beside(top: int, head: str, *lines: str) -> str:
    """
    Return a heading and lines, to the right of a ring.
    """
    parts = [text(350, top, head, "n", anchor="start")]
    parts += [text(350, top + 24 + 20 * number, line, anchor="start") for number, line in enumerate(lines)]
    return "".join(parts)


def ring(left: float, top: float, radius: float, view: Any, labels: Mapping[int, str]) -> str:
    """
    Return a drawing of a ring that *view*, the state of a wheel, describes.

    The number of entries of each occupied slot is inside the ring, and *labels* are outside.
    """
    inner = radius * 0.66
    parts = []

    def at(angle: float, far: float) -> tuple[float, float]:
        return left + math.sin(angle) * far, top - math.cos(angle) * far

    for index in range(view.slots):
        begins, ends = (2 * math.pi * (index + edge) / view.slots for edge in (0.0, 0.95))
        corners = [at(begins, inner), at(begins, radius), at(ends, radius), at(ends, inner)]
        a, b, c, d = (f"{x:.1f} {y:.1f}" for x, y in corners)
        held = view.counts.get(index)
        path = f"M{a}L{b}A{radius} {radius} 0 0 1 {c}L{d}A{inner:.1f} {inner:.1f} 0 0 0 {a}z"
        parts.append(f'<path class="{"f" if held else "s"}" d="{path}"/>')
        middle = (begins + ends) / 2
        if held:
            x, y = at(middle, (inner + radius) / 2)
            parts.append(text(x, y + 4, held, "w"))
        if index in labels:
            x, y = at(middle, radius + 24)
            parts.append(text(x, y + 4, labels[index], "t"))
    middle = 2 * math.pi * (view.pointer + 0.475) / view.slots
    (x1, y1), (x2, y2) = at(middle, radius * 0.22), at(middle, radius * 0.6)
    parts.append(f'<line class="h" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
    return "".join(parts)


def heap() -> str:
    """
    Draw a heap of seven entries.
    """
    wheel = HeapWheel()
    for deadline in (180, 240, 200, 360, 300, 260, 420):
        wheel.insert(deadline, None)
    order = [entry.deadline for entry in wheel.drain()]
    assert order == sorted(order), "what leaves a heap is in order"
    lines, nodes = [], []
    for index, deadline in enumerate((180, 240, 200, 360, 300, 260, 420)):
        x, y = place(index)
        if index:
            up_x, up_y = place((index - 1) // 2)
            lines.append(f'<line class="l" x1="{up_x:.0f}" y1="{up_y}" x2="{x:.0f}" y2="{y}"/>')
        nodes.append(f'<circle class="f" cx="{x:.0f}" cy="{y}" r="20"/>{text(x, y + 4, deadline, "w")}')
        nodes.append(text(x + 29, y - 12, index, "t"))
    says = text(320, 204, "No entry is before its parent. Each knows its position, so a cancel finds it.")
    return svg(216, "A heap of seven deadlines", *lines, *nodes, says)


def place(index: int) -> tuple[float, int]:
    """
    Return the position in the drawing of the node at *index* of a heap.
    """
    level = (index + 1).bit_length() - 1
    across = index + 1 - (1 << level)
    return 40 + 560 * (across + 0.5) / (1 << level), 34 + 60 * level


def single() -> str:
    """
    Draw a single ring.
    """
    wheel = SingleWheel(tick=1, slots=8)
    wheel.advance(10 * SECOND)
    for tick in (12, 12, 15):
        wheel.insert(tick * SECOND, None)
    labels = {tick % 8: f"tick {tick}" for tick in range(11, 19)}
    says = beside(
        92,
        "slot = tick mod 8",
        "The hand is at tick 10, in slot 2.",
        "That slot is empty, so it can hold tick 18.",
        "Tick 19 would share slot 3 with tick 11:",
        "it is past the span, and refused.",
    )
    title = "One ring of eight slots; the pointer has emptied tick 10"
    return svg(270, title, ring(190, 125, 88, wheel.rings()[1], labels), says)


def rounds() -> str:
    """
    Draw a wheel with one ring, on which a long delay takes several turns of the pointer.
    """
    wheel = RoundsWheel(tick=1, slots=8)
    wheel.advance(10 * SECOND)
    for tick in (11, 19, 27, 14):
        wheel.insert(tick * SECOND, None)
    says = beside(
        92,
        "round = tick div 8",
        "Slot 3 holds ticks 11, 19 and 27.",
        "In round 1 the hand takes 11,",
        "reads 19 and 27, and leaves them.",
        "Long delays are read once a turn.",
    )
    labels = {3: "11, 19, 27", 6: "14"}
    return svg(270, "One ring gone around several times", ring(190, 125, 88, wheel.rings()[1], labels), says)


def hierarchical() -> str:
    """
    Draw the three rings of a hierarchical wheel.
    """
    wheel = HierarchicalWheel(tick=1, slots=8)
    wheel.advance(SECOND)
    for tick in (4, 6, 6, *range(16, 20), *range(64, 73)):
        wheel.insert(tick * SECOND, None)
    parts = []
    for level, view in enumerate(wheel.rings()[1:]):
        left = 110 + 210 * level
        unit = view.slot_ns // SECOND
        parts += [ring(left, 120, 76, view, {}), text(left, 236, view.name, "n")]
        parts.append(text(left, 252, f"8 slots of {unit} tick{'s' if unit > 1 else ''}", "t"))
        if level:
            parts.append(text(left - 106, 14, "cascade", "t"))
            parts.append(f'<path class="a" d="M{left - 80} 36Q{left - 106} 14 {left - 132} 36"/>')
    says = "When a slot of a coarse wheel begins, its entries are filed again, nearer."
    return svg(300, "Three wheels of eight slots", *parts, text(320, 286, says))


def cascading() -> str:
    """
    Draw how a cascading wheel splits the bits of its tick counter among its rings.
    """
    parts = [text(20, 24, "The 32 bits of the counter, and the ring that looks at each", "n", anchor="start")]
    left = 56.0
    for level in reversed(range(len(BITS))):
        bits, shift = BITS[level], SHIFTS[level]
        wide, kind, word = 17 * bits - 4, ("s", "f")[not level], ("n", "w")[not level]
        middle = left + wide / 2
        parts.append(f'<rect class="{kind}" x="{left:.0f}" y="44" width="{wide}" height="40" rx="4"/>')
        parts.append(text(middle, 69, f"far {level - 1}" if level else "near", word))
        parts.append(text(middle, 102, f"{1 << bits} slots", "t"))
        parts.append(text(middle, 118, f"bits {shift} to {shift + bits - 1}", "t"))
        left += wide + 4
    parts.append('<line class="a" x1="130" y1="138" x2="562" y2="138"/>')
    parts.append(text(345, 160, "each cascade moves an entry to the right, four times at most"))
    return svg(176, "The counter of the cascading wheel", *parts)


def native() -> str:
    """
    Draw four levels of the native wheel, and below them the timers of its current slot.
    """
    wheel = NativeWheel()
    for us in (70, 75, 90):
        wheel.insert(us * 1_000, None)
    wheel.advance(66_000)  # makes the slot of these three timers the current one
    for us in (80, 101, 102, 120, 200, 460, 900, 1_500, 2_000, 9_000, 30_000, 70_000, 150_000, 1_500_000, 9_000_000):
        wheel.insert(us * 1_000, None)
    begun, *levels = wheel.rings()
    parts = []
    for number, view in enumerate(reversed(levels[:4])):
        top = 24 + 40 * number
        says = duration(view.slot_ns)
        parts += [text(16, top + 14, view.name, "n", anchor="start"), text(84, top + 14, says, "t", anchor="start")]
        for slot in range(view.slots):
            held = view.counts.get(slot)
            left = 140 + 7.5 * slot
            parts.append(f'<rect class="{"f" if held else "s"}" x="{left}" y="{top}" width="6.5" height="20"/>')
        hand = 140 + 7.5 * view.pointer + 3.25
        parts.append(f'<line class="h" x1="{hand}" y1="{top + 24}" x2="{hand}" y2="{top + 30}"/>')
    parts.append(text(16, 204, "begun", "n", anchor="start"))
    parts += [f'<circle class="f" cx="{149 + 20 * n}" cy="199" r="7"/>' for n in range(begun.counts[0])]
    parts.append(
        text(146 + 20 * begun.counts[0], 204, "sorted by deadline, each fires at its instant", "t", anchor="start")
    )
    says = "A row is 64 slots, and one word has a bit for each: what is next is the first bit from below."
    return svg(244, "Four levels of the native wheel, and what has begun", *parts, text(320, 232, says))


def watch(design: str) -> str:
    """
    Return a page that animates the wheel designs side by side, with *design* and the heap first.

    The timers are those of a burst of cron jobs.
    """
    load = Load("cron-herd", seconds=7_200, size=14, seed=3)
    operations = list(itertools.islice(generate(load), 400))
    facts = facts_of(operations)
    names = [design, "heap", *(name for name in CARDS if name not in {design, "heap"})]
    return render_watch("a burst of cron jobs", [small(Design(name), facts) for name in names], operations, 160)


def turning() -> str:
    """
    Return an animation of the native wheel: timers drop in, wait, are sorted, and fire.
    """
    delays_us = (3_000, 90_000, 45_000, 160_000, 120_000, 121_000, 122_000, 30_000)
    operations = [TraceOperation(at * 4_000, "S", f"timer {at}", delay) for at, delay in enumerate(delays_us)]
    film = Recorder(NativeWheel(), 60).play(operations)
    steps = film["steps"]
    shape = {number: slots for step in steps for number, slots, slot_ns in step.get("s", ()) if slot_ns}
    used = sorted({place[1] for step in steps for place in step.get("m", ())} & shape.keys())
    bands = {ring: 46 + 40 * number for number, ring in enumerate(used)}
    parts = [_band(bands[ring], shape[ring]) for ring in used]
    for ring in used:
        turns = [f"{360 * (slot + 0.5) / 64:.1f}" for slot in _held(steps, ring)]
        hand = f'<line class="h" y1="{-bands[ring]}" y2="{-bands[ring] - 36}"/>'
        parts.append(f'<g transform="translate(160 135)"><g>{hand}{_animated("rotate", turns)}</g></g>')
    colours = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#0072b2")
    for timer, colour in enumerate(colours):
        parts.append(_moving(steps, timer, bands, colour))
    for number, step in enumerate(steps):
        words = text(350, 110, step["x"].replace("a slot begins: ", ""), "n", anchor="start")
        parts.append(f'<g opacity="0">{words}{_shown_alone(number, len(steps))}</g>')
    says = ("A timer drops into one of 64 slots,", "and waits until the hand comes there.")
    says = (*says, "Its slot is sorted, once, and it fires", "at its own nanosecond, never before.")
    parts += [text(350, 140 + 20 * number, line, anchor="start") for number, line in enumerate(says)]
    return svg(276, "The native wheel at work: timers drop into slots, wait, and fire", *parts)


def _band(radius: float, slots: int) -> str:
    gap = 2 * math.pi * (radius + 18) / slots
    dashes = f'stroke-width="36" stroke-dasharray="{gap - 0.8:.3f} 0.8"'
    return f'<circle class="b" cx="160" cy="135" r="{radius + 18}" transform="rotate(-90 160 135)" {dashes}/>'


def _held(steps: list[dict[str, Any]], ring: int) -> list[int]:
    # Returns the position of a ring's pointer at each step.
    slot, found = 0, []
    for step in steps:
        slot = dict(step.get("p", ())).get(ring, slot)
        found.append(slot)
    return found


def _moving(steps: list[dict[str, Any]], timer: int, bands: Mapping[int, int], colour: str) -> str:
    places, shown = ["160.0 -12.0"], ["0"]
    for step in steps:
        place, is_seen = places[-1], shown[-1]
        for number, ring, slot in step.get("m", ()):
            if number == timer:
                angle = 2 * math.pi * (slot + 0.5) / 64
                far = bands[ring] + 12 + timer % 3 * 6 if ring in bands else 0 if ring == FIRED else 14
                angle = angle if ring in bands else 0.8 * timer
                place, is_seen = f"{160 + math.sin(angle) * far:.1f} {135 - math.cos(angle) * far:.1f}", "1"
                is_seen = "0" if ring == FIRED else "1"
        places.append(place)
        shown.append(is_seen)
    moves = _animated("translate", places[1:]), _animated("opacity", shown[1:])
    return f'<circle r="5.5" fill="{colour}" opacity="0">{"".join(moves)}</circle>'


def _shown_alone(number: int, count: int) -> str:
    # The caption appears and disappears without a fade, because two captions at once could not be read.
    values, times = ["0", "1", "0"], [0.0, number / count, (number + 1) / count]
    first, last = int(number == 0), 3 - int(number == count - 1)
    keys = ";".join(f"{time:.4f}" for time in times[first:last])
    listed = ";".join(values[first:last])
    timing = f'dur="{count}s" repeatCount="indefinite" keyTimes="{keys}" values="{listed}"'
    return f'<animate attributeName="opacity" calcMode="discrete" {timing}/>'


def _animated(what: str, values: list[str]) -> str:
    # Each step takes a second. A timer moves in the first half of the second, and rests in the second half.
    count = len(values)
    times, all_values = [], []
    for number, value in enumerate(values):
        times += [number / count, (number + 0.5) / count]
        all_values += [values[number - 1] if number else value, value]
    pairs = zip([*times, 1.0], [*all_values, values[-1]], strict=True)
    kept: list[tuple[float, str]] = []
    for time, value in pairs:
        if len(kept) > 1 and time < 1 and kept[-1][1] == kept[-2][1] == value:
            kept[-1] = time, value
        else:
            kept.append((time, value))
    keys = ";".join(f"{time:.4f}".rstrip("0").rstrip(".") or "0" for time, _ in kept)
    listed = ";".join(value for _, value in kept)
    timing = f'dur="{count}s" repeatCount="indefinite" keyTimes="{keys}" values="{listed}"'
    if what == "opacity":
        return f'<animate attributeName="opacity" {timing}/>'
    return f'<animateTransform attributeName="transform" type="{what}" {timing}/>'


DRAWINGS = {
    "heap.svg": heap,
    "single.svg": single,
    "rounds.svg": rounds,
    "hierarchical.svg": hierarchical,
    "cascading.svg": cascading,
    "native.svg": native,
    "turning.svg": turning,
    "watch-hierarchical.html": lambda: watch("hierarchical"),
    "watch-native.html": lambda: watch("native"),
}
"""Maps the name of each file in docs/explanation to the function that draws it."""

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (Path(sys.argv[1]) / name).write_text(draw(), "utf-8")
