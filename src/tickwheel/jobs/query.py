from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tickwheel.jobs.record import record

if TYPE_CHECKING:
    from tickwheel.jobs.model import Job, State

__all__ = ["JobQuery", "Page", "has_field", "has_not_succeeded"]

_SUCCEEDED_AT: Final = re.compile(r',"succeeded_at":([0-9]+)')
"""Matches the field `succeeded_at` in a canonical text, but not inside a string."""


@record
class JobQuery:
    """
    A query for jobs, ordered by the code points of their keys, from just after *cursor*.

    A job that changes while pages are read appears exactly once. *recurring* selects recurring jobs, *paused*
    selects pending jobs that are paused. *contains* is a substring of the key, and *error* is a substring of the last
    error. Stores ignore *not_succeeded_since*; the client filters by it.
    """

    prefix: str = ""
    state: State | None = None
    due_from: int | None = None
    due_until: int | None = None
    handler: str | None = None
    cursor: str | None = None
    limit: int = 100
    recurring: bool = False
    paused: bool = False
    target: str | None = None
    contains: str | None = None
    error: str | None = None
    payload: bytes | None = None
    field: str | None = None
    manifest: str | None = None
    not_succeeded_since: int | None = None

    @property
    def is_narrowed(self) -> bool:
        """
        True if the query filters by any field except keys, prefix, paused, recurring and manifest.
        """
        jobs = (self.state, self.due_from, self.due_until, self.handler, self.target)
        return any(value is not None for value in (*jobs, self.contains, self.error, self.payload))

    def matches(self, job: Job) -> bool:
        """
        Return True if *job* matches the filters. Cursor and limit are ignored.
        """
        return (
            job.key.startswith(self.prefix)
            and self.state in {None, job.state}
            and (self.due_from is None or job.due_at >= self.due_from)
            and (self.due_until is None or job.due_at < self.due_until)
            and self.handler in {None, job.handler}
            and self.target in {None, job.target}
            and (self.contains is None or self.contains in job.key)
            and (self.error is None or self.error in (job.error or ""))
            and (self.payload is None or self.payload in job.payload)
            and (job.recurrence is not None or not self.recurring)
            and (job.is_paused or not self.paused)
            and self.manifest in {None, job.manifest}
        )


def has_not_succeeded(job: Job, since: int) -> bool:
    if job.recurrence is None or job.first_set_at >= since:
        return False
    found = _SUCCEEDED_AT.search(job.recurrence)
    return found is None or int(found[1]) < since


def has_field(job: Job, field: str) -> bool:
    """
    Return True if *job* has a JSON payload with *field* ("name=value").

    The name may be several names joined by dots, for nested objects. The value is the text of a string, or a number,
    true, false or null as JSON writes it.
    """
    names, _, wanted = field.partition("=")
    with suppress(ValueError, RecursionError):
        found: Any = json.loads(job.payload)
        for name in names.split("."):
            if not isinstance(found, dict) or name not in found:
                return False
            found = found[name]
        return found == wanted if isinstance(found, str) else json.dumps(found) == wanted
    return False


@record
class Page:
    """
    One page of a list. The last page has the *cursor* None. A page may be empty, because the store limits each search.
    """

    jobs: tuple[Job, ...]
    cursor: str | None = None
