from __future__ import annotations

import time
from typing import Any, Final

from msgspec import Struct

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import query, to_count, to_instant
from tickwheel.service.jobs import RecordDocument, record_document
from tickwheel.service.minutes import SPAN_FIELDS
from tickwheel.service.replies import document_reply

__all__ = ["ACT_FIELDS", "Acts", "ActsDocument"]

_LIMIT_MAX: Final = 1_000
ACT_FIELDS: Final[dict[str, Any]] = {
    **SPAN_FIELDS,
    "limit": {"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX, "default": 100},
}


class ActsDocument(Struct, frozen=True):
    """
    The acts of callers and the events of nodes, newest first.

    For a bulk change, the outcome is "bulk", `key` is the name of the change, and `error` is the author's note. For an
    event of a node, it is "deployed" (`note` is the version), "node_died" or "took_over", and `key` is the node.
    """

    acts: list[RecordDocument]


class Acts:
    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler

    async def list(self, call: Request) -> Reply:
        """
        Return the log of acts: callers' changes and pauses, bulk changes, deploys, deaths of nodes and takeovers.
        """
        fields = query(call, ACT_FIELDS)
        since = to_instant("since", fields["since"]) if "since" in fields else time.time() - 3_600
        until = to_instant("until", fields["until"]) if "until" in fields else None
        limit = to_count("limit", fields.get("limit", "100"), _LIMIT_MAX)
        found = await self._scheduler.acts(since, until, limit)
        return document_reply(ActsDocument([record_document(record) for record in found]))
