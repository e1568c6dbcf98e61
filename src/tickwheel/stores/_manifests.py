"""
Decides which writes are valid in a batch that declares manifests. Used by every store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from tickwheel.jobs.model import Answer, Cancel, Declare, Job, Manifest, Outcome, Set, Write, key_of
from tickwheel.stores.contract import Partitioned, Store

__all__ = ["Manifests", "manifest_of", "partitions_of"]

_REFUSED = -1
"""The version of a manifest whose declaration was refused in this batch. It matches no write."""


def manifest_of(write: Write) -> str | None:
    if isinstance(write, Declare):
        return write.manifest.name
    under = write.under if isinstance(write, (Set, Cancel)) else None
    return None if under is None else under.manifest


def partitions_of(store: Store) -> list[tuple[Store, str]]:
    """
    Return the partitions of *store*, each with a key that belongs to it. An undivided store is one partition.
    """
    if not isinstance(store, Partitioned):
        return [(store, "0")]
    place = store.partition_of
    return [
        (each, next(key for key in map(str, count()) if place(key) == number))
        for number, each in enumerate(store.partitions)
    ]


class Manifests:
    """
    The manifests that a batch declares.

    Attributes:
        changed: The new record of each declared manifest.
    """

    __slots__ = ("_latest", "_stored", "changed")

    def __init__(self, stored: Mapping[str, Manifest]) -> None:
        self._stored = stored
        self._latest: dict[str, Manifest] = {}
        self.changed: dict[str, Manifest] = {}

    def answer(self, write: Write, jobs: Mapping[str, Job | None]) -> Answer | None:
        """
        Return the answer if *write* is a declaration, or belongs to an outdated declaration; None for any other write.

        *jobs* has the jobs of the batch's keys as they are before *write*.
        """
        if isinstance(write, Declare):
            return self._declare(write, jobs)
        under = write.under if isinstance(write, (Set, Cancel)) else None
        if under is None or self._version(under.manifest) == under.version:
            return None
        return Answer(Outcome.SUPERSEDED, jobs.get(key_of(write)))

    def _declare(self, write: Declare, jobs: Mapping[str, Job | None]) -> Answer:
        manifest, answer = write.manifest, None
        if self._version(manifest.name) != write.if_version:
            answer = Answer(Outcome.SUPERSEDED)
        else:
            found = (job for key in write.keys if (job := jobs.get(key)) is not None)
            taken = next((job for job in found if job.manifest not in (None, manifest.name)), None)
            answer = None if taken is None else Answer(Outcome.OTHER_MANIFEST, taken)
        if answer is not None:
            self._latest[manifest.name] = replace(manifest, version=_REFUSED)
            return answer
        if manifest.version == write.if_version:
            return Answer(Outcome.UNCHANGED)
        self._latest[manifest.name] = self.changed[manifest.name] = manifest
        return Answer(Outcome.CHANGED)

    def _version(self, name: str) -> int:
        manifest = self._latest.get(name) or self._stored.get(name)
        return 0 if manifest is None else manifest.version
