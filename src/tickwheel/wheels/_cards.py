from __future__ import annotations

from importlib import import_module
from typing import Final

from tickwheel.wheels import MODULES
from tickwheel.wheels.card import Card

__all__ = ["CARDS"]

_FOUND: Final[list[Card]] = [import_module(f"tickwheel.wheels.{module}").CARD for module in MODULES]

CARDS: Final[dict[str, Card]] = {card.name: card for card in _FOUND}
