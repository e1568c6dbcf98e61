"""
Manifests, which are named lists of recurring jobs that are declared together.
"""

from __future__ import annotations

from tickwheel.jobs.record import record

__all__ = ["Manifest", "Under"]


@record
class Manifest:
    """
    The stored record of a manifest. Each job of the manifest has the manifest's name in a column.

    Attributes:
        name: 1 to 255 bytes of UTF-8.
        version: Increases with each declaration of new contents; 0 if there is no record yet.
        digest: A checksum of the last declaration.
        revision: The revision of the last declaration, or None.
        rules: JSON that maps keys to canonical recurrences, for the declared jobs with `max_runs`. After such a job has
            ended, a declaration with the same rule does not create it again.
    """

    name: str
    version: int = 0
    digest: str = ""
    revision: int | None = None
    rules: str = "{}"


@record
class Under:
    """
    The declaration that a write belongs to. The write is valid only while the manifest has the declaration's version.
    """

    manifest: str
    version: int
