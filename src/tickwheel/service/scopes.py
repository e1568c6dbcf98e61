from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.bodies import PauseScopeBody, ScopeBody
from tickwheel.service.documents import PauseDocument, pause_document
from tickwheel.service.guard import caller
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import read_body
from tickwheel.service.options import ServiceOptions
from tickwheel.service.replies import document_reply
from tickwheel.service.strict_json import decoded

__all__ = ["ResumedDocument", "Scopes", "ScopesDocument"]

_PAUSE: Final = msgspec.json.Decoder(PauseScopeBody)
_RESUME: Final = msgspec.json.Decoder(ScopeBody)


class ScopesDocument(Struct, frozen=True):
    """
    The paused scopes. A scope is a handler, a queue, a target, or all jobs. `/v1/stats` has the number of waiting jobs.
    """

    pauses: list[PauseDocument]


class ResumedDocument(Struct, frozen=True):
    """
    The answer to the resume of a scope (such as a handler). `was_paused` is true if the scope was paused before.
    """

    was_paused: bool


class Scopes:
    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions) -> None:
        self._scheduler = scheduler
        self._options = options

    async def get(self, _call: Request) -> Reply:
        """
        Return the paused scopes: handlers, queues, targets, or all jobs.
        """
        pauses = await self._scheduler.paused_scopes()
        return document_reply(ScopesDocument([pause_document(pause) for pause in pauses]))

    async def pause(self, call: Request) -> Reply:
        """
        Pause all jobs of a handler, a queue or a target, or all jobs, on all nodes.

        The jobs stay pending and use no attempt; running jobs continue. The author of the pause is the token's name.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _PAUSE)
        by = caller(call, self._options)
        pause = await self._scheduler.pause_scope(body.scope, note=body.note, by=by)
        return document_reply(pause_document(pause))

    async def resume(self, call: Request) -> Reply:
        """
        Resume the jobs of a paused scope: a handler, a queue, a target, or all jobs.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _RESUME)
        was_paused = await self._scheduler.resume_scope(body.scope, by=caller(call, self._options))
        return document_reply(ResumedDocument(was_paused))
