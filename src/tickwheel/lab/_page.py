"""
A report as one HTML page that needs no network: a table, charts, and all figures, also as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from tickwheel.lab._charts import COLOURS

__all__ = ["render_page", "section", "table"]


def render_page(
    *, title: str, intro: str, first: str, charts: Iterable[str], note: str, table: str, figures: str
) -> str:
    page = files("tickwheel.lab").joinpath("report.html").read_text("utf-8")
    fields = {
        "title": escape(title),
        "intro": escape(intro),
        "first": first,
        "charts": "".join(charts),
        "note": escape(note),
        "table": table,
        "figures": figures.replace("</", "<\\/"),
    }
    for name, content in fields.items():
        page = page.replace("{{" + name + "}}", content)
    return page


def section(title: str, text: str, picture: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{picture}</section>"


def table(head: Sequence[str], *rows: Sequence[str], kind: str = "figures") -> str:
    """
    Return a table of text, in a scrollable box. Pass the *kind* "words" if the cells have sentences.

    If the first cell of a row is the name of a series, the cell gets the colour of that series.
    """
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += [_first(cells[0]) + "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:]) for cells in rows]
    rows_of_page = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table class="{kind}">{rows_of_page}</table></div>'


def _first(cell: str) -> str:
    colour = f' class="name" style="color:{COLOURS[cell]}"' if cell in COLOURS else ""
    return f"<td{colour}>{escape(cell)}</td>"
