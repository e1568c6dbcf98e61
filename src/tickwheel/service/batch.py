"""
Batches of single changes, and bulk changes. A bulk change is one change to all jobs that a filter selects.

The items of a batch are applied in order; a refused item does not affect other items. Consecutive items that set jobs
share a commit. If the store refuses this commit, the jobs are set one by one; then only the invalid item is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, cast

import msgspec

from tickwheel.scheduler import Answer, AsyncScheduler, Outcome, SetRequest
from tickwheel.service.bodies import (
    BatchBody,
    BatchOutline,
    BulkBody,
    CancelItem,
    Item,
    MoveItem,
    PauseItem,
    ReplayItem,
    ResumeItem,
    SetItem,
)
from tickwheel.service.documents import (
    BatchDocument,
    BulkChangeDocument,
    BulkDocument,
    ResultDocument,
    Written,
    instant,
    job_document,
)
from tickwheel.service.figures import Figures
from tickwheel.service.guard import caller
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import read_body
from tickwheel.service.list_body import ListBody
from tickwheel.service.msgpack import is_msgpack
from tickwheel.service.options import ServiceOptions
from tickwheel.service.problems import ProblemError
from tickwheel.service.refusals import check_set
from tickwheel.service.replies import REFUSALS, document_reply, problem_of, refusal_of
from tickwheel.service.strict_json import decoded
from tickwheel.service.token_scope import allows_prefixed_tokens, check_key, is_bounded

__all__ = ["Batches"]

_CHUNK: Final = 500
"""Number of items handled before other requests get their turn on the event loop."""
_CHUNKS_AT_ONCE: Final = 64
"""Maximum number of chunks (groups of `_CHUNK` items), of all batches together, that may wait for the store at once."""
_UNDONE: Final = 503
"""HTTP status of an item whose write got no answer from the store."""
_BATCH: Final = ListBody(BatchBody, BatchOutline, Item, "items")
_BULK: Final = msgspec.json.Decoder(BulkBody)


class Batches:
    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions, figures: Figures) -> None:
        self._scheduler = scheduler
        self._figures = figures
        self._options = options
        self._turns = asyncio.Semaphore(_CHUNKS_AT_ONCE)

    @allows_prefixed_tokens
    async def apply(self, call: Request) -> Reply:
        """
        Set, move, cancel, pause, resume and replay many jobs, in order.

        Each item has its own result; the batch as a whole is not atomic. With `refuse_all`, one invalid item means that
        nothing is set, and the answer is this item's problem. The option is allowed only if every item sets a job.
        If the token has a prefix, a batch with a key outside the prefix is refused as a whole.
        """
        is_packed = is_msgpack(call)
        data = await read_body(call, self._options.batch_bytes_max, is_json=not is_packed)
        body = await _BATCH.decoded(data, self._options.body_bytes_max, is_packed=is_packed)
        if is_bounded(call):
            for item in body.items:
                check_key(call, item.key)
        sets = sum(isinstance(item, SetItem) for item in body.items)
        await self._figures.check_room(self._options.pending_max, sets)
        if body.refuse_all:
            return document_reply(BatchDocument(await self._all_or_none(body)))
        by = caller(call, self._options)
        results: list[ResultDocument] = []
        for start in range(0, len(body.items), _CHUNK):
            async with self._turns:
                results += await self._chunk(body.items[start : start + _CHUNK], by, with_jobs=body.with_jobs)
        reply = document_reply(BatchDocument(results))
        reply.is_final = all(result.status != _UNDONE for result in results)
        return reply

    async def bulk(self, call: Request) -> Reply:
        """
        Change all jobs that a filter selects, or only count them.

        One request handles up to 10,000 jobs. Repeat the request with the cursor of the answer until that cursor is
        null. A job is left as it is if another client changes it between the requests.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _BULK)
        fields = body.fields()
        by = caller(call, self._options) if body.do == "pause" else None
        answer = await self._scheduler.bulk(fields.pop("do"), fields.pop("prefix"), by=by, **fields)
        changes = [BulkChangeDocument(each.key, each.generation, instant(each.was_due_at)) for each in answer.changes]
        sums = answer.matched, answer.changed, answer.refused, answer.cursor, answer.start, answer.stopping
        return document_reply(BulkDocument(*sums, changes))

    async def _all_or_none(self, body: BatchBody) -> list[ResultDocument]:
        items = [item for item in body.items if isinstance(item, SetItem)]
        if len(items) < len(body.items):
            remedy = "send sets alone, or leave refuse_all out"
            raise ProblemError("invalid_value", f"refuse_all goes with sets alone: {remedy}", remedy=remedy)
        answers = await self._scheduler.set_many([self._request(item) for item in items])
        pairs = zip(items, answers, strict=True)
        return [_result(item, answer, with_jobs=body.with_jobs) for item, answer in pairs]

    async def _chunk(self, items: Sequence[Item], by: str, *, with_jobs: bool) -> list[ResultDocument]:
        results: list[ResultDocument] = []
        for kind, group in groupby(items, type):
            same = list(group)
            if kind is SetItem:
                results += await self._set_all(same, by, with_jobs=with_jobs)  # type: ignore[arg-type]  # all items are SetItems
            else:
                results += await asyncio.gather(*(self._one(item, by, with_jobs=with_jobs) for item in same))
        return results

    async def _set_all(self, items: list[SetItem], by: str, *, with_jobs: bool) -> list[ResultDocument]:
        try:
            answers = await self._scheduler.set_many([self._request(item) for item in items])
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            if problem.kind.name == "store_unavailable":  # the sets may be written, and must not be written twice
                return [_refused(item, problem) for item in items]
            return await asyncio.gather(*(self._one(item, by, with_jobs=with_jobs) for item in items))
        pairs = zip(items, answers, strict=True)
        return [_result(item, answer, with_jobs=with_jobs) for item, answer in pairs]

    async def _one(self, item: Item, by: str, *, with_jobs: bool) -> ResultDocument:
        try:
            return _result(item, await self._answer(item, by), with_jobs=with_jobs)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return _refused(item, problem)

    async def _answer(self, item: Item, by: str) -> Answer:
        match item:
            case SetItem():
                return (await self._scheduler.set_many([self._request(item)]))[0]
            case MoveItem():
                return await self._scheduler.move(
                    item.key, delay=item.delay, at=item.at, if_generation=item.if_generation
                )
            case CancelItem():
                return await self._scheduler.cancel(item.key, running=item.running, if_generation=item.if_generation)
            case PauseItem():
                return await self._scheduler.pause(item.key, note=item.note, by=by, if_generation=item.if_generation)
            case ResumeItem():
                return await self._scheduler.resume(item.key, if_generation=item.if_generation)
            case ReplayItem():
                return await self._scheduler.replay(item.key, delay=item.delay, if_generation=item.if_generation)

    def _request(self, item: SetItem) -> SetRequest:
        check_set(item, self._scheduler, self._options.every_min_s)
        return SetRequest(**item.fields())


def _result(item: Item, answer: Answer, *, with_jobs: bool) -> ResultDocument:
    outcome, job = answer.outcome, answer.job
    if outcome in REFUSALS:
        return _refused(item, refusal_of(item.key, answer, item.if_generation))
    status, word = 201 if outcome is Outcome.CREATED else 200, cast("Written", outcome.value)
    if job is None:
        return ResultDocument(item.key, status, word)
    shown = job_document(job) if with_jobs else None
    return ResultDocument(item.key, status, word, job.generation, instant(job.due_at), None, shown)


def _refused(item: Item, problem: ProblemError) -> ResultDocument:
    document: dict[str, Any] = problem.document()
    return ResultDocument(item.key, problem.kind.status, "refused", problem=document)
