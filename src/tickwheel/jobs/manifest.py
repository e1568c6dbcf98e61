"""
A manifest: a named list of recurring jobs, which are declared together.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from tickwheel.jobs.record import record

__all__ = ["Manifest", "Under"]


@record
class Manifest:
    """
    The facts that a store keeps of a manifest, one record for each name; its jobs name it in a column of their own.

    Attributes:
        name: 1 to 255 bytes of UTF-8.
        version: Grows with each declaration of other contents; 0 where nothing is kept yet.
        digest: A checksum of what was declared last.
        revision: The revision that was declared last, or None.
        rules: JSON, the canonical recurrence by key of each declared job that has a number of runs: once it has ended,
            it is not created again by the same rule. So it grows with the manifest and no further.
    """

    name: str
    version: int = 0
    digest: str = ""
    revision: int | None = None
    rules: str = "{}"


@record
class Under:
    """
    The declaration that a write is part of: the write counts while the manifest has this version.
    """

    manifest: str
    version: int
