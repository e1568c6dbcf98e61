from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tickwheel.lab.designs import Design, parse_design
from tickwheel.wheels import CARDS

__all__ = ["chosen", "name_of", "trace_argument", "wheel_option"]

F = TypeVar("F", bound=Callable[..., Any])


def trace_argument(function: F) -> F:
    return click.argument("trace", type=click.Path(path_type=Path))(function)


def wheel_option(function: F) -> F:
    return click.option(
        "--wheel",
        "wheels",
        multiple=True,
        metavar="DESIGN",
        help=f"One of {', '.join(CARDS)}, with options such as rounds:tick=0.1,slots=512; may be given again. "
        "What is not given suits the trace.  [default: all]",
    )(function)


def chosen(wheels: tuple[str, ...]) -> list[Design]:
    return [parse_design(text) for text in wheels or CARDS]


def name_of(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".timers")
