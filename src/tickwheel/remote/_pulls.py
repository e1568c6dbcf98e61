from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from tickwheel.host.pulls import (
    LEASE_MAX_S,
    LEASE_MIN_S,
    check_delay,
    check_error,
    check_lease,
    check_seconds,
)
from tickwheel.jobs.model import Progress
from tickwheel.remote import _wire
from tickwheel.remote.transport import Transport
from tickwheel.targets.pull import JobLease
from tickwheel.typing import Duration

__all__ = ["RemotePulls"]


class RemotePulls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def lease(self, queue: str, limit: int, wait: Duration, seconds: Duration) -> Future[list[JobLease]]:
        queue, limit, wait, seconds = check_lease(queue, limit, wait, seconds)
        body = _wire.to_json({"queue": queue, "limit": limit, "wait": wait, "seconds": seconds})
        return self._transport.submit(self._lease(body, wait))

    def abandon(self, found: Future[list[JobLease]]) -> None:
        # firings that are leased meanwhile are released when their leases end
        found.cancel()

    def ack(self, fire_id: str) -> Future[None]:
        return self._transport.submit(self._end("ack", {"fire_id": fire_id}))

    def nack(self, fire_id: str, delay: Duration | None, error: str | None, *, is_dead: bool) -> Future[None]:
        reason = check_error(error)[:2_000]
        body = {"fire_id": fire_id, "delay": check_delay(delay, is_dead=is_dead), "error": reason, "is_dead": is_dead}
        return self._transport.submit(self._end("nack", body))

    def release(self, fire_id: str, delay: Duration | None) -> Future[None]:
        return self._transport.submit(
            self._end("release", {"fire_id": fire_id, "delay": check_delay(delay, is_dead=False)})
        )

    def extend(self, fire_id: str, seconds: Duration, progress: Progress | None = None) -> Future[int]:
        body: dict[str, Any] = {
            "fire_id": fire_id,
            "seconds": check_seconds("seconds", seconds, LEASE_MIN_S, LEASE_MAX_S),
        }
        if progress is not None:
            body |= {"progress": progress.fraction, "note": progress.note}
        return self._transport.submit(self._extend(body))

    async def _lease(self, body: bytes, wait: float) -> list[JobLease]:
        document = await self._transport.document("POST", "/v1/pull:lease", body, patience_s=wait)
        return [
            JobLease(_wire.job_of(lease["job"]), lease["attempt"], _wire.ms(lease["until"]))
            for lease in document["leases"]
        ]

    async def _end(self, verb: str, body: dict[str, Any]) -> None:
        await self._transport.document("POST", f"/v1/pull:{verb}", _wire.to_json(body))

    async def _extend(self, body: dict[str, Any]) -> int:
        document = await self._transport.document("POST", "/v1/pull:extend", _wire.to_json(body))
        return _wire.ms(document["until"])
