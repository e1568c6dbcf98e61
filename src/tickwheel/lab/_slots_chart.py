"""
A chart of how full the slots of rings are, ring below ring, from the slot that comes next to the farthest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from tickwheel.lab._charts import COLOURS, WIDTH

__all__ = ["slots_chart"]

HEIGHT: Final = 26
GAP: Final = 8
LEFT: Final = 140
RIGHT: Final = 190
TOP: Final = 8


def slots_chart(rings: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """
    Return the chart of *rings*, each with its design's name; bars grow with the logarithm of what a slot holds.
    """
    most = max((ring["most"] for _, ring in rings), default=0)
    parts = []
    before = None
    foot = TOP
    for design, ring in rings:
        foot += HEIGHT + (GAP if design == before else 2 * GAP)
        parts.append(_row(design, ring, foot, most, is_first=design != before))
        before = design
    return (
        f'<svg viewBox="0 0 {WIDTH} {foot + 10}" role="img" aria-label="slot occupancy by ring">{"".join(parts)}</svg>'
    )


def _row(design: str, ring: dict[str, Any], foot: int, most: int, *, is_first: bool) -> str:
    colour = COLOURS.get(design, "#888")
    room = WIDTH - LEFT - RIGHT
    width = room / len(ring["fills"])
    parts = [f'<text class="name" x="4" y="{foot - 6}" fill="{colour}">{escape(design)}</text>'] if is_first else []
    parts.append(f'<text class="note" x="{LEFT - 8}" y="{foot - 6}" text-anchor="end">{escape(ring["name"])}</text>')
    for number, fill in enumerate(ring["fills"]):
        if fill:
            tall = math.log1p(fill) / math.log1p(most) * HEIGHT
            parts.append(
                f'<rect x="{LEFT + number * width:.2f}" y="{foot - tall:.2f}" width="{max(width - 0.4, 0.4):.2f}" '
                f'height="{tall:.2f}" fill="{colour}"/>'
            )
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{foot}" y2="{foot}"/>')
    told = f"{ring['occupied']:,} of {ring['slots']:,}, fullest {ring['most']:,}"
    parts.append(f'<text class="note" x="{WIDTH - RIGHT + 8}" y="{foot - 6}">{told}</text>')
    return "".join(parts)
