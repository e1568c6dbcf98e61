"""
The operations of pull workers: lease due firings, and acknowledge, refuse, release or extend them.

A lease is in the memory of one node. Any node accepts a request about any lease, and forwards the request to the node
that holds the lease: see `peers`. Firings are leased when the answer is sent, so a worker that disconnects while it
waits leases nothing.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, convert, structs
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from tickwheel.host.pulls import check_lease
from tickwheel.jobs import checks
from tickwheel.jobs.recurrence import nominal_of
from tickwheel.scheduler import AsyncScheduler, JobLease, LeaseEndedError, StoreError
from tickwheel.service.bodies import AckBody, ExtendBody, LeaseBody, NackBody, ReleaseBody
from tickwheel.service.documents import JobDocument, Moment, instant, job_document
from tickwheel.service.guard import expired, remaining_s
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import read_body
from tickwheel.service.options import ServiceOptions
from tickwheel.service.peers import Peer, Peers, UnreachablePeerError
from tickwheel.service.problems import ProblemError
from tickwheel.service.replies import document_reply
from tickwheel.service.strict_json import decoded

__all__ = ["EndedDocument", "ExtendedDocument", "LeasesDocument", "Pulls"]

_LEASE: Final = msgspec.json.Decoder(LeaseBody)
_ACK: Final = msgspec.json.Decoder(AckBody)
_NACK: Final = msgspec.json.Decoder(NackBody)
_RELEASE: Final = msgspec.json.Decoder(ReleaseBody)
_EXTEND: Final = msgspec.json.Decoder(ExtendBody)
_BODIES: Final = {"ack": AckBody, "nack": NackBody, "release": ReleaseBody, "extend": ExtendBody}
_OWN_S: Final = 0.05
"""Seconds to wait for due firings on this node before another node is asked."""

_ENDED_MAX: Final = 1_000
_CLOSE_S: Final = 1.0

_T = TypeVar("_T")


class LeaseDocument(Struct, frozen=True):
    """
    One leased firing: the job's state before the lease, and the number of this attempt.

    `nominal_at` is the instant that the rule of a recurring job gives for the run; all attempts of the run share it.
    """

    fire_id: str
    attempt: int
    is_last_attempt: bool
    until: Moment
    nominal_at: Moment | None
    job: JobDocument


class LeasesDocument(Struct, frozen=True):
    """
    The leased firings, in the order of their due times; empty if no firing fell due within the requested wait.
    """

    leases: list[LeaseDocument]


class EndedDocument(Struct, frozen=True):
    """
    The outcome of a leased firing: acknowledged, refused or released.
    """

    outcome: Literal["acknowledged", "refused", "released"]


class ExtendedDocument(Struct, frozen=True):
    """
    The new end of a lease.
    """

    until: Moment


class _End(Struct, frozen=True):
    is_done: bool
    until: int = 0
    became: str | None = None


class _Nothing(Struct, frozen=True): ...


class Pulls:
    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions, peers: Peers) -> None:
        self._scheduler = scheduler
        self._options = options
        self._peers = peers
        self._waiting: set[asyncio.Future[Any]] = set()
        self._forwarded: dict[str, asyncio.Future[list[LeaseDocument]]] = {}
        """Long polls that other nodes have forwarded, by the name that the forwarding node chose."""
        self._ended_early: OrderedDict[str, None] = OrderedDict()
        """Names of forwarded polls whose end arrived first, because poll and end came over different connections."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def end(self) -> None:
        """
        Answer every waiting long poll with an empty list. Call this on the event loop when a stop begins.
        """
        self._is_closing = True
        for waiting in self._waiting:
            waiting.cancel()

    async def close(self) -> None:
        # leases that are not returned expire
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)
        for task in self._tasks:
            task.cancel()

    async def lease(self, call: Request) -> Reply:
        """
        Lease due firings of a queue; wait for the first if none is due.

        A queue holds the jobs with `"target": "pull"` and the queue's name as `handler`. End each firing with `:ack`,
        `:nack` or `:release` before its lease ends. If the lease ends first, the attempt has failed, and the job's
        retry policy applies. If no firing falls due within `wait`, `leases` is empty.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _LEASE)
        wait = 0.0 if self._is_closing else check_lease(body.queue, body.limit, body.wait, body.seconds)[2]
        leasing = asyncio.ensure_future(self._lease(body, wait))
        return document_reply(await self._unless_gone(leasing, call, LeasesDocument([])))

    async def ack(self, call: Request) -> Reply:
        """
        End a leased firing as done.

        A repeated request gets the same answer. A late request is refused with 409 and the outcome of the firing.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _ACK)
        await self._anywhere("ack", body)
        return document_reply(EndedDocument("acknowledged"))

    async def nack(self, call: Request) -> Reply:
        """
        End a leased firing as a failed attempt, or make its job a dead letter.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _NACK)
        await self._anywhere("nack", body)
        return document_reply(EndedDocument("refused"))

    async def release(self, call: Request) -> Reply:
        """
        Release a leased firing, so that another worker may lease it immediately or after `delay`. No attempt is used.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _RELEASE)
        await self._anywhere("release", body)
        return document_reply(EndedDocument("released"))

    async def extend(self, call: Request) -> Reply:
        """
        Extend a lease to the requested number of seconds from now, and optionally report the progress of the work.
        """
        body = await decoded(await read_body(call, self._options.body_bytes_max), _EXTEND)
        return document_reply(ExtendedDocument(instant(await self._anywhere("extend", body))))

    async def forwarded(self, call: Request) -> Reply:
        if not self._peers.is_peer(call):
            raise ProblemError("page_not_found", "there is nothing at this address", value=call.path)
        asked = msgspec.json.decode(await read_body(call, self._options.body_bytes_max))
        verb, body = asked["verb"], asked["body"]
        if verb == "end_wait":
            if (waiting := self._forwarded.get(body)) is not None:
                waiting.cancel()
            else:
                self._ended_early[body] = None
                if len(self._ended_early) > _ENDED_MAX:
                    self._ended_early.popitem(last=False)
            return document_reply(_Nothing())
        if verb == "lease":
            return document_reply(await self._lease_forwarded(call, convert(body, LeaseBody), asked["name"]))
        try:
            until = await self._here(verb, convert(body, _BODIES[verb]))
        except LeaseEndedError as error:
            return document_reply(_End(is_done=False, became=error.what))
        return document_reply(_End(is_done=True, until=until))

    # ---- one lease, held by one node -------------------------------------------------------------------------------

    async def _here(self, verb: str, body: Any) -> int:
        """
        Apply *verb* to a lease of this node. Return the new end of an extended lease in ms; 0 for other verbs.
        """
        if verb == "ack":
            await self._scheduler.ack(body.fire_id)
        elif verb == "nack":
            await self._scheduler.nack(body.fire_id, delay=body.delay, error=body.error, is_dead=body.is_dead)
        elif verb == "release":
            await self._scheduler.release(body.fire_id, delay=body.delay)
        else:
            return await self._scheduler.extend(body.fire_id, body.seconds, progress=body.progress, note=body.note)
        return 0

    async def _anywhere(self, verb: str, body: Any) -> int:
        """
        Apply *verb* to a lease of any node. Return the new end of an extended lease in ms; 0 for other verbs.

        A `store_unavailable` problem is raised if a node that may hold the lease does not answer.
        """
        try:
            return await self._here(verb, body)
        except LeaseEndedError as error:
            if error.what is not None:  # it was leased here
                raise
            ended = error
        asked = {"verb": verb, "body": body}
        asking = [asyncio.ensure_future(self._peers.ask(peer, asked, _End)) for peer in await self._peers.others()]
        became: str | None = None
        unreachable: UnreachablePeerError | None = None
        for answered in asyncio.as_completed(asking):
            try:
                answer = await answered
            except UnreachablePeerError as error:
                unreachable = error
                continue
            if answer is None:
                continue
            if answer.is_done:
                for each in asking:  # the other nodes do not hold the lease: ignore their answers
                    each.add_done_callback(_read)
                return answer.until
            became = became or answer.became
        if became is None and unreachable is not None:
            what = f"the node that holds the lease may be one that does not answer: {unreachable}"
            raise ProblemError("store_unavailable", what, headers={"retry-after": "1"})
        raise LeaseEndedError(ended.fire_id, became)

    # ---- due firings, on any node ----------------------------------------------------------------------------------

    async def _lease(self, body: LeaseBody, wait_s: float) -> LeasesDocument:
        first_s = min(wait_s, _OWN_S)
        found = await self._lease_here(body, first_s)
        peers = [] if found or self._is_closing else await self._peers.others()
        left_s = wait_s - first_s
        if not peers:
            return LeasesDocument(found or (await self._lease_here(body, left_s) if left_s > 0 else []))
        random.shuffle(peers := list(peers))
        name, is_over = secrets.token_hex(8), asyncio.Event()
        waits = [asyncio.ensure_future(self._lease_here(body, left_s))]
        waits += [
            asyncio.ensure_future(self._lease_there(peer, _forward(body, name, left_s), number * _OWN_S, is_over))
            for number, peer in enumerate(peers)
        ]
        try:
            leases: list[Any] = []
            for answered in asyncio.as_completed(waits):
                try:
                    leases = await answered
                except UnreachablePeerError:
                    continue  # try the next node
                if leases:
                    break
            return LeasesDocument(leases)
        finally:
            is_over.set()
            self._in_background(self._withdraw(waits, peers, name, leases))

    async def _lease_here(self, body: LeaseBody, wait_s: float) -> list[LeaseDocument]:
        leases = await self._scheduler.lease(body.queue, limit=body.limit, wait=wait_s, seconds=body.seconds)
        return [_document(lease) for lease in leases]

    async def _lease_there(
        self, peer: Peer, asked: dict[str, Any], after_s: float, is_over: asyncio.Event
    ) -> list[LeaseDocument]:
        # the delays of peers differ, so two peers rarely both lease firings
        await asyncio.sleep(after_s)
        if is_over.is_set():
            return []
        found = await self._peers.ask(peer, asked, LeasesDocument, asked["body"].wait)
        return [] if found is None else found.leases

    async def _withdraw(
        self, waits: Sequence[asyncio.Future[list[LeaseDocument]]], peers: Sequence[Peer], name: str, taken: object
    ) -> None:
        """
        End the remaining *waits*. Release the leases that they got, except *taken*, which the answer already contains.
        """
        waits[0].cancel()  # this node's own wait; the scheduler releases leases that it still gets
        ending = {"verb": "end_wait", "body": name}
        pending = [peer for peer, wait in zip(peers, waits[1:], strict=True) if not wait.done()]
        await asyncio.gather(*(self._peers.ask(peer, ending, _Nothing) for peer in pending), return_exceptions=True)
        for leases in await asyncio.gather(*waits, return_exceptions=True):
            if isinstance(leases, list) and leases is not taken:
                for lease in leases:
                    with suppress(LeaseEndedError, ProblemError, StoreError):
                        await self._anywhere("release", ReleaseBody(lease.fire_id))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lease_forwarded(self, call: Request, body: LeaseBody, name: str) -> LeasesDocument:
        is_over = name in self._ended_early
        self._ended_early.pop(name, None)
        wait_s = 0.0 if self._is_closing or is_over else checks.seconds("wait", body.wait)
        waiting = asyncio.ensure_future(self._lease_here(body, wait_s))
        self._forwarded[name] = waiting
        try:
            return LeasesDocument(await self._unless_gone(waiting, call, []))
        finally:
            self._forwarded.pop(name, None)

    async def _unless_gone(self, waiting: asyncio.Future[_T], call: Request, otherwise: _T) -> _T:
        """
        Return the result of *waiting*, or *otherwise* if *waiting* is cancelled because the service stops.

        A ClientDisconnect is raised if the worker disconnects first, and an `unauthorized` problem if its token expires
        first.
        """
        gone = asyncio.ensure_future(_gone(call.receive))
        both: tuple[asyncio.Future[Any], ...] = (waiting, gone)
        self._waiting.add(waiting)
        try:
            await asyncio.wait(both, timeout=remaining_s(call), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                if not gone.done():
                    raise expired(time.time())  # the expiry of the token ended the wait
                raise ClientDisconnect
            return otherwise if waiting.cancelled() else waiting.result()
        finally:
            self._waiting.discard(waiting)
            for task in both:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await gone


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _forward(body: LeaseBody, name: str, wait_s: float) -> dict[str, Any]:
    return {"verb": "lease", "name": name, "body": structs.replace(body, wait=wait_s)}


def _read(answered: asyncio.Future[Any]) -> None:
    # otherwise asyncio would log the error of an answer that nothing needs
    if not answered.cancelled():
        answered.exception()


def _document(lease: JobLease) -> LeaseDocument:
    job = lease.job
    nominal_at = nominal_of(job.key, job.due_at, job.recurrence)
    return LeaseDocument(
        lease.fire_id,
        lease.attempt,
        lease.is_last_attempt,
        instant(lease.until),
        None if nominal_at is None else instant(nominal_at),
        job_document(job),
    )
