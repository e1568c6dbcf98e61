"""
Charts as SVG, drawn without a library. The colours come from M. Okabe and K. Ito, "Color Universal Design", 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from operator import itemgetter
from typing import Final

from tickwheel.wheels import CARDS

__all__ = ["COLOURS", "WIDTH", "Axis", "drawing", "line_chart", "strip_chart"]

COLOURS: Final = {
    **{name: card.colour for name, card in CARDS.items()},
    "p50": "#0072b2",
    "p90": "#009e73",
    "p99": "#d55e00",
    "p999": "#cc79a7",
    "max": "#7f7f7f",
    "intended": "#7f7f7f",
    "answered": "#0072b2",
}
"""Colours of the series in charts, keyed by name. A series is a design, or a measurement of a load test."""
WIDTH: Final = 420
"""Width of a chart, chosen so that text is legible on a phone."""
HEIGHT: Final = 300
LEFT: Final = 80
RIGHT: Final = 96
TOP: Final = 14
BOTTOM: Final = 44
LABEL_GAP: Final = 16


@dataclass(frozen=True)
class Axis:
    title: str
    write: Callable[[float], str]
    is_log: bool = True


def drawing(parts: Sequence[str], height: float, title: str) -> str:
    label = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def line_chart(x: Axis, y: Axis, xs: Sequence[float], series: Mapping[str, Sequence[float]]) -> str:
    """
    Return a chart of *series*: a list of values at *xs* for each name. NaN values are left out.
    """
    values = [max(value, _least(y)) for heights in series.values() for value in heights if not math.isnan(value)]
    across = _Scale(x, xs, LEFT, WIDTH - RIGHT, pad=False)
    up = _Scale(y, values, HEIGHT - BOTTOM, TOP, pad=True)
    parts = [_grid(across, up, xs if x.is_log else across.ticks())]
    ends = {}
    for name, heights in series.items():
        known = [(at, height) for at, height in zip(xs, heights, strict=True) if not math.isnan(height)]
        if not known:
            continue
        points = [(across.at(at), up.at(max(height, _least(y)))) for at, height in known]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        colour = COLOURS.get(name, "#888")
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        if x.is_log:
            parts += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3.4" fill="{colour}"/>' for left, top in points]
        ends[name] = points[-1][1]
    parts += [_end_label(name, top) for name, top in _spread(ends).items()]
    return drawing(parts, HEIGHT, f"{y.title} by {x.title}")


def strip_chart(
    title: str, write: Callable[[float], str], series: Mapping[str, Sequence[float]], seconds: float
) -> str:
    height, gap = 46, 12
    most = max((value for values in series.values() for value in values), default=0) or 1
    parts = []
    for row, (name, values) in enumerate(series.items()):
        base = TOP + (height + gap) * row + height
        width = (WIDTH - LEFT - RIGHT) / max(len(values), 1)
        for number, value in enumerate(values):
            if value:
                tall = max(value / most * height, 0.8)
                left = LEFT + number * width
                parts.append(
                    f'<rect x="{left:.2f}" y="{base - tall:.2f}" width="{width:.2f}" height="{tall:.2f}" '
                    f'fill="{COLOURS.get(name, "#888")}"/>'
                )
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
        parts.append(_end_label(name, base - 22))
        parts.append(
            f'<text class="note" x="{WIDTH - RIGHT + 8}" y="{base - 4}">most {escape(write(max(values)))}</text>'
        )
    bottom = TOP + (height + gap) * len(series)
    axis = Axis("seconds of rest", lambda value: f"{value:g}", is_log=False)
    across = _Scale(axis, (0, seconds), LEFT, WIDTH - RIGHT, pad=False)
    foot = bottom + 6
    parts += [
        f'<text class="tick" x="{across.at(tick):.1f}" y="{foot}" text-anchor="middle">{tick:g}</text>'
        for tick in across.ticks()
    ]
    parts.append(_title_across(axis.title, bottom + 24))
    return drawing(parts, bottom + 32, title)


class _Scale:
    def __init__(self, axis: Axis, values: Sequence[float], first: float, last: float, *, pad: bool) -> None:
        self.axis = axis
        low, high = min(values, default=1), max(values, default=1)
        if axis.is_log:
            low, high = math.log10(low), math.log10(high)
        elif pad:
            low = 0
        room = (high - low) * 0.08 if pad else 0
        self._low, self._high = low - room if axis.is_log else low, high + room
        if self._low == self._high:
            self._low, self._high = self._low - 0.5, self._high + 0.5
        self._first, self._last = first, last

    def at(self, value: float) -> float:
        number = math.log10(value) if self.axis.is_log else value
        return self._first + (number - self._low) / (self._high - self._low) * (self._last - self._first)

    def ticks(self) -> list[float]:
        if not self.axis.is_log:
            step = _round_step((self._high - self._low) / 4)
            first = math.ceil(self._low / step)
            return [step * number for number in range(first, math.floor(self._high / step + 1e-9) + 1)]
        decades = range(math.floor(self._low), math.ceil(self._high) + 1)
        steps = (1,) if self._high - self._low > 2 else (1, 2, 5)  # noqa: PLR2004 two decades
        numbers = [step * 10.0**decade for decade in decades for step in steps]
        return [number for number in numbers if self._low <= math.log10(number) <= self._high]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def _least(axis: Axis) -> float:
    # A logarithmic axis has no zero; zeros are drawn at its foot, as half of the smallest value.
    return 0.5 if axis.is_log else 0.0


def _grid(across: _Scale, up: _Scale, marks: Sequence[float]) -> str:
    parts = []
    for tick in up.ticks():
        top = up.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top:.1f}" y2="{top:.1f}"/>')
        text = escape(up.axis.write(tick))
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{top + 4:.1f}" text-anchor="end">{text}</text>')
    for mark in marks:
        left, foot = across.at(mark), HEIGHT - BOTTOM + 16
        text = escape(across.axis.write(mark))
        parts.append(f'<text class="tick" x="{left:.1f}" y="{foot}" text-anchor="middle">{text}</text>')
    parts.append(_title_across(across.axis.title, HEIGHT - 4))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="note" transform="translate(13 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(up.axis.title)}</text>"
    )
    return "".join(parts)


def _title_across(title: str, foot: float) -> str:
    middle = (LEFT + WIDTH - RIGHT) / 2
    return f'<text class="note" x="{middle:.0f}" y="{foot:.0f}" text-anchor="middle">{escape(title)}</text>'


def _end_label(name: str, top: float) -> str:
    colour = COLOURS.get(name, "#888")
    return f'<text class="name" x="{WIDTH - RIGHT + 8}" y="{top + 4:.1f}" fill="{colour}">{escape(name)}</text>'


def _spread(ends: Mapping[str, float]) -> dict[str, float]:
    # Move names that would overlap apart: first down, then, from the bottom of the chart, up again.
    places = sorted(ends.items(), key=itemgetter(1))
    tops: list[float] = []
    for _, top in places:
        tops.append(max(top, tops[-1] + LABEL_GAP) if tops else top)
    lowest = HEIGHT - BOTTOM + 0.0
    for number in reversed(range(len(tops))):
        tops[number] = min(tops[number], lowest)
        lowest = tops[number] - LABEL_GAP
    return {name: top for (name, _), top in zip(places, tops, strict=True)}
