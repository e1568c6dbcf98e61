from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = ["Examinable", "Finding"]


class Finding(NamedTuple):
    """
    The result of one check.

    Attributes:
        is_well: True if no action is needed.
        text: The finding, with a remedy if one is needed.
    """

    check: str
    is_well: bool
    text: str

    @classmethod
    def well(cls, check: str, text: str) -> Finding:
        """
        Return a finding that needs no action.
        """
        return cls(check, is_well=True, text=text)

    @classmethod
    def wrong(cls, check: str, text: str) -> Finding:
        """
        Return a finding that needs action; *text* has the remedy.
        """
        return cls(check, is_well=False, text=text)


@runtime_checkable
class Examinable(Protocol):
    """
    A store whose server can be examined.
    """

    def examine(self) -> Sequence[Finding]:
        """
        Examine the server on a separate connection. The store need not be open. Nothing is written.
        """
