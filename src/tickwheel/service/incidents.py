from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from tickwheel.jobs.incidents import LETTERS_MAX
from tickwheel.scheduler import AsyncScheduler, Incident
from tickwheel.service.documents import Moment, instant
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import query, refuse, to_count
from tickwheel.service.jobs import LIST_FIELDS
from tickwheel.service.replies import document_reply
from tickwheel.service.token_scope import allows_prefixed_tokens, narrowed

__all__ = ["INCIDENT_FIELDS", "Incidents", "IncidentsDocument"]

_SEARCH_CHARS_MAX: Final = 512
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
INCIDENT_FIELDS: Final[dict[str, Any]] = {
    "search": {
        "type": "string",
        "pattern": "^[^\\u0000]*$",
        "maxLength": _SEARCH_CHARS_MAX,
        "description": "Letters with this, in whatever case, in their key, error, target, handler or raised_in.",
    },
    "prefix": LIST_FIELDS["prefix"],
    "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$", "description": "Only this incident."},
    "keys": {
        "type": "integer",
        "minimum": 1,
        "maximum": LETTERS_MAX,
        "default": 3,
        "description": "How many keys of each to list, the latest first.",
    },
}


class PlaceDocument(Struct, frozen=True):
    """
    The number of dead letters of one target and handler.
    """

    target: str
    handler: str
    count: int


class IncidentDocument(Struct, frozen=True):
    """
    Dead letters with the same cause.

    `error` is the error text of these letters, with an ellipsis for each part that varies. `example` is the error text
    of the latest letter. `raised_in` is the function of the user's code that raised the errors. `errors` is the number
    of different texts. `first_at` and `last_at` are the due times of the first and the latest letter; a letter keeps
    the due time of its last attempt. `by_hour` has the number of letters in each of the last 24 hours.
    """

    fingerprint: str
    error: str
    example: str
    count: int
    errors: int
    first_at: Moment
    last_at: Moment
    by_hour: list[int]
    places: list[PlaceDocument]
    keys: list[str]
    raised_in: str | None = None


class IncidentsDocument(Struct, frozen=True):
    """
    All incidents, ordered by their latest letter, newest first.

    Only the latest 10,000 dead letters are examined; `is_all` is false if there are more.
    """

    incidents: list[IncidentDocument]
    looked_at: int
    is_all: bool


class Incidents:
    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler

    @allows_prefixed_tokens
    async def list(self, call: Request) -> Reply:
        """
        Return the dead letters, grouped into incidents.

        The letters of an incident have the same target and the same error, apart from numbers and quoted values. If an
        error was raised by different lines of code, its letters are in different incidents.

        To retry letters, send their keys as replays in a batch. Give each replay another `delay` to spread the load.
        """
        fields = query(call, INCIDENT_FIELDS)
        keys = to_count("keys", fields.get("keys", "3"), LETTERS_MAX)
        search, wanted = fields.get("search", ""), fields.get("fingerprint")
        if len(search) > _SEARCH_CHARS_MAX:
            refuse("search", search, f"give at most {_SEARCH_CHARS_MAX} characters")
        if wanted is not None and not _FINGERPRINT.fullmatch(wanted):
            refuse("fingerprint", wanted, "give one as the list of incidents has it")
        found = await self._scheduler.incidents(search, prefix=narrowed(call, fields.get("prefix", "")))
        shown = [_incident(each, keys) for each in found.incidents if wanted in {None, each.fingerprint}]
        return document_reply(IncidentsDocument(shown, found.looked_at, found.is_all))


def _incident(incident: Incident, keys: int) -> IncidentDocument:
    return IncidentDocument(
        fingerprint=incident.fingerprint,
        error=incident.error,
        example=incident.example,
        count=incident.count,
        errors=incident.errors,
        first_at=instant(incident.first_at),
        last_at=instant(incident.last_at),
        by_hour=list(incident.by_hour),
        places=[PlaceDocument(*place) for place in incident.places],
        keys=list(incident.keys[:keys]),
        raised_in=incident.raised_in,
    )
