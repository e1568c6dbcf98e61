from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from tickwheel.errors import SpanExceededError
from tickwheel.lab._scenes import clock_face, own_timer, scenes
from tickwheel.lab.designs import Design
from tickwheel.lab.film import Recorder
from tickwheel.lab.trace import TraceOperation
from tickwheel.wheels import CARDS
from tickwheel.wheels.card import Load

__all__ = ["FRAMES", "render_watch", "small"]

FRAMES: Final = 300


def small(design: Design, load: Load) -> Design:
    """
    Return *design* with rings that are small enough to draw, unless its geometry was specified.

    The finest ring turns once or twice during a delay of *load*, so that its slots are used again, and timers cascade.
    """
    return Design(design.name, {**CARDS[design.name].shown(load), **design.options})


def render_watch(
    trace: str,
    designs: Sequence[Design],
    operations: Sequence[TraceOperation],
    frames: int = FRAMES,
    progress: Callable[[str], object] | None = None,
) -> str:
    """
    Return an HTML page with recorded runs of the designs. At first, it shows the first two designs side by side.

    *designs* have small rings (see `small`). The trace, *operations*, is played until *frames* steps are recorded for
    each design. *progress* is called with the name of each design before it is recorded. A SpanExceededError is raised
    if the first design cannot hold a delay. Any other design that cannot hold a delay is left out.
    """
    films = []
    for design in designs:
        if progress is not None:
            progress(str(design))
        try:
            films.append({"name": str(design), **Recorder(design.make(), frames).play(operations)})
        except SpanExceededError:
            if not films:
                raise
    text = "The same timers on two designs, side by side. Both follow one clock; each files and fires in its own way."
    chapters: list[dict[str, Any]] = [
        clock_face(),
        {"id": "trace", "title": f"Trace: {trace}", "text": text, "runs": [{"label": "", "films": films}]},
        own_timer(),
        *scenes(),
    ]
    document = json.dumps({"chapters": chapters}, separators=(",", ":"))
    page = files("tickwheel.lab").joinpath("watch.html").read_text("utf-8")
    fields = {"trace": escape(trace), "document": document.replace("</", "<\\/")}
    for name, content in fields.items():
        page = page.replace("{{" + name + "}}", content)
    return page
