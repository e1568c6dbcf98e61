"""
Refuses stores made by versions before the first release, when schemas were edited in place.
"""

from __future__ import annotations

from tickwheel.jobs.errors import StoreFormatError

__all__ = ["unreleased"]


def unreleased(url: str, found: str) -> StoreFormatError:
    what = f"{url} was made by a tickwheel that was never released ({found})"
    remedy = "run 'tickwheel export' with the tickwheel that made it, and 'tickwheel import jsonl' into a new store"
    return StoreFormatError(what, f"{remedy}; this one was left as it is")
