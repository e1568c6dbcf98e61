"""
Finds designs by the names that the lab's commands accept: `native`, `rounds:tick=0.1,slots=512`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwheel.errors import TickwheelError
from tickwheel.wheels import CARDS
from tickwheel.wheels.view import ShownWheel

__all__ = ["Design", "DesignError", "parse_design"]


class DesignError(TickwheelError, ValueError):
    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"wheel {text!r}: {problem}")


@dataclass(frozen=True)
class Design:
    """
    A design with its geometry. *options* has the tick (in seconds) and the number of slots, if they are specified.
    """

    name: str
    options: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        # Write the shortest number that reads back as the same value.
        options = ",".join(f"{name}={_shortest(value)}" for name, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name

    def make(self) -> ShownWheel:
        try:
            wheel: ShownWheel = CARDS[self.name].make(**self.options)
        except (TypeError, ValueError) as error:
            raise DesignError(str(self), str(error)) from error
        return wheel


def _shortest(value: float) -> str:
    text = f"{value:g}"
    return text if not isinstance(value, int) and float(text) == value else repr(value)


def parse_design(text: str) -> Design:
    name, _, rest = text.partition(":")
    if name not in CARDS:
        raise DesignError(text, f"expected one of {', '.join(CARDS)}")
    options: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        option, _, value = part.partition("=")
        known = CARDS[name].options
        if option not in known:
            raise DesignError(text, f"no option {option!r}: expected {' and '.join(known) or 'none'}")
        try:
            options[option] = int(value) if option == "slots" else float(value)
        except ValueError as error:
            kind = "a whole number" if option == "slots" else "a number"
            raise DesignError(text, f"{option} is {value!r}: expected {kind}") from error
    design = Design(name, options)
    design.make()
    return design
