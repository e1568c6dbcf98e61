from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from tickwheel.lab._charts import COLOURS, WIDTH, drawing

__all__ = ["slots_chart"]

HEIGHT: Final = 26
LINE: Final = 17
GAP: Final = 8
SIDE: Final = 4


def slots_chart(rings: Sequence[tuple[str, dict[str, Any]]]) -> str:
    most = max((ring["most"] for _, ring in rings), default=0)
    parts = []
    before = None
    foot = 0
    for design, ring in rings:
        if design != before:
            foot += GAP + LINE
            colour = COLOURS.get(design, "#888")
            parts.append(f'<text class="name" x="{SIDE}" y="{foot - 3}" fill="{colour}">{escape(design)}</text>')
        foot += GAP + LINE + HEIGHT
        parts.append(_row(design, ring, foot, most))
        before = design
    return drawing(parts, foot + SIDE, "slot occupancy by ring")


def _row(design: str, ring: dict[str, Any], foot: int, most: int) -> str:
    colour = COLOURS.get(design, "#888")
    width = (WIDTH - 2 * SIDE) / len(ring["fills"])
    top = foot - HEIGHT - 4
    full = f"{ring['occupied']:,} of {ring['slots']:,}, fullest {ring['most']:,}"
    parts = [
        f'<text class="note" x="{SIDE}" y="{top}">{escape(ring["name"])}</text>',
        f'<text class="note" x="{WIDTH - SIDE}" y="{top}" text-anchor="end">{full}</text>',
    ]
    for number, fill in enumerate(ring["fills"]):
        if fill:
            tall = math.log1p(fill) / math.log1p(most) * HEIGHT
            parts.append(
                f'<rect x="{SIDE + number * width:.2f}" y="{foot - tall:.2f}" width="{max(width - 0.4, 0.4):.2f}" '
                f'height="{tall:.2f}" fill="{colour}"/>'
            )
    parts.append(f'<line class="axis" x1="{SIDE}" x2="{WIDTH - SIDE}" y1="{foot}" y2="{foot}"/>')
    return "".join(parts)
