"""
The cards of all designs.
"""

from __future__ import annotations

from typing import Final

from tickwheel.wheels import calendar_queue, cascading, heap, hierarchical, native, rounds, single
from tickwheel.wheels.card import Card

__all__ = ["CARDS"]

CARDS: Final[dict[str, Card]] = {
    module.CARD.name: module.CARD for module in (native, heap, single, rounds, hierarchical, cascading, calendar_queue)
}
"""What each design says of itself, by its name; to add a design is to add its module here."""
