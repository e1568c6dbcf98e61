from __future__ import annotations

import logging
import math
import time
from typing import Any, Final

from starlette.exceptions import HTTPException

from tickwheel.errors import ClosedError, InvalidDelayError, InvalidValueError, TooManyTimersError
from tickwheel.jobs.errors import HandlerNotFoundError, LeaseEndedError, StoreError, TooManyWaitingError
from tickwheel.jobs.model import Answer, Job, Outcome
from tickwheel.jobs.requests import other_manifest
from tickwheel.service.documents import JobDocument, answer_document, job_document
from tickwheel.service.http import Reply, Request
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.strict_json import encode

__all__ = ["REFUSALS", "answer_reply", "document_reply", "job_reply", "problem_of", "problem_reply", "refusal_of"]

_LOG: Final = logging.getLogger("tickwheel.service")
_EVERY_S: Final = 10.0
"""Minimum seconds between two log lines about the store, so that a flood does not fill the disk."""


class _StoreLines:
    def __init__(self) -> None:
        self._last = -math.inf

    def note(self, call: Request, error: StoreError) -> None:
        now = time.monotonic()
        if now - self._last >= _EVERY_S:
            self._last = now
            _LOG.error("%s %s is answered with 503: %s", call.method, show(call.path), error)


_STORE_LINES: Final = _StoreLines()
REFUSALS: Final = frozenset(
    {
        Outcome.NOT_FOUND,
        Outcome.TOO_LATE,
        Outcome.WRONG_GENERATION,
        Outcome.FINISHED,
        Outcome.OTHER_MANIFEST,
        Outcome.KEY_REUSED,
    }
)


def document_reply(document: Any, status: int = 200, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply(status, b"application/json", encode(document), *headers)


def job_reply(job: Job) -> Reply:
    return document_reply(job_document(job), 200, _tag(job))


def answer_reply(key: str, answer: Answer, wanted: int | None) -> Reply:
    outcome = answer.outcome
    if outcome in REFUSALS:
        raise refusal_of(key, answer, wanted)
    if answer.job is None or outcome is Outcome.CANCELLED:  # a cancelled job has no tag any more
        return document_reply(answer_document(answer))
    return document_reply(answer_document(answer), 201 if outcome is Outcome.CREATED else 200, _tag(answer.job))


def refusal_of(key: str, answer: Answer, wanted: int | None) -> ProblemError:  # noqa: PLR0911  one return for each outcome
    job = answer.job
    if answer.outcome is Outcome.KEY_REUSED:
        return ProblemError("idempotency_key_reused", "the Idempotency-Key was sent with another request before")
    if answer.outcome is Outcome.NOT_FOUND:
        if job is None:
            return ProblemError("job_not_found", f"no job has the key {show(key)}", value=key)
        remedy = "replay a dead job, and only such"
        what = f"job {show(key)} is {job.state}: {remedy}"
        return ProblemError("job_not_found", what, value=key, remedy=remedy, job=_shown(answer))
    if answer.outcome is Outcome.TOO_LATE:
        return ProblemError("too_late", f"job {show(key)} is running", value=key, job=_shown(answer))
    if answer.outcome is Outcome.FINISHED:
        remedy = "name a later instant"
        return ProblemError("invalid_value", f"until: no run is due until then: {remedy}", remedy=remedy)
    if answer.outcome is Outcome.OTHER_MANIFEST and job is not None:
        problem = problem_of(other_manifest(job))
        assert problem is not None
        return problem
    found = "there is none" if job is None else f"it has {job.generation}"
    asked = "no job" if wanted == 0 else f"generation {wanted}"
    headers = {} if job is None else {"etag": f'"{job.generation}"'}
    message = f"{asked} was asked for at {show(key)}: {found}"
    return ProblemError("wrong_generation", message, value=wanted, headers=headers, job=_shown(answer))


def _shown(answer: Answer) -> JobDocument | None:
    return None if answer.job is None else job_document(answer.job)


def _tag(job: Job) -> tuple[bytes, bytes]:
    return b"etag", b'"%d"' % job.generation


def problem_of(error: Exception) -> ProblemError | None:  # noqa: PLR0911  a table, one row for each error
    match error:
        case ProblemError():
            return error
        case InvalidValueError():
            detail = f"{error.name} is {show(error.value)}: {error.remedy}"
            return ProblemError("invalid_value", detail, value=error.value, remedy=error.remedy)
        case InvalidDelayError():
            return ProblemError("invalid_value", str(error), value=error.value)
        case HandlerNotFoundError():
            return ProblemError("unknown_handler", f"no handler is named {show(error.handler)}", value=error.handler)
        case LeaseEndedError():
            return ProblemError("lease_ended", str(error), value=error.fire_id)
        case TooManyTimersError() | TooManyWaitingError():
            return ProblemError("too_many_requests", str(error), headers={"retry-after": "1"})
        case StoreError() | ClosedError():
            is_unknown = isinstance(error, StoreError) and error.is_unknown
            return ProblemError("store_unavailable", str(error), headers={"retry-after": "1"}, is_unknown=is_unknown)
        case HTTPException(status_code=405):
            return ProblemError("method_not_allowed", "this address takes GET, HEAD", headers={"allow": "GET, HEAD"})
        case HTTPException():  # only the page's files raise it
            return ProblemError("page_not_found", "there is no such file")
    return None


def problem_reply(call: Request, error: Exception) -> Reply:
    # an internal error is logged, and reported without details
    problem = problem_of(error)
    if problem is None:
        _LOG.error("%s %s failed", call.method, show(call.path), exc_info=error)
        problem = ProblemError("internal_error", "the service failed on this request")
    elif isinstance(error, StoreError) and problem.kind.name == "store_unavailable":
        _STORE_LINES.note(call, error)
    headers = ((name.encode(), value.encode("latin-1")) for name, value in problem.headers.items())
    return Reply(problem.kind.status, b"application/problem+json", encode(problem.document()), *headers)
