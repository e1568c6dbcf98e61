"""
How answers are put on the wire: documents, problems, and which error is which problem.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from tickwheel.errors import ClosedError, InvalidDelayError, TooManyTimersError
from tickwheel.scheduler._model import Answer, Job, Outcome
from tickwheel.scheduler.errors import HandlerNotFoundError, InvalidJobError, StoreError
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.strict_json import encode
from tickwheel.service.wire import answer_document, job_document

__all__ = ["answer_reply", "document_reply", "etag", "job_reply", "problem_of", "problem_reply"]

_LOG: Final = logging.getLogger("tickwheel.service")
_STATUS: Final = {Outcome.CREATED: 201}


class _Json(Response):
    """
    Bytes that are JSON already.
    """

    media_type = "application/json"


def document_reply(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """
    Return *document* as JSON.
    """
    return _Json(encode(document), status, headers)


def etag(job: Job) -> str:
    """
    Return the entity tag that stands for the job's generation.
    """
    return f'"{job.generation}"'


def job_reply(job: Job) -> Response:
    """
    Return *job* with its entity tag.
    """
    return document_reply(job_document(job), headers={"etag": etag(job)})


def answer_reply(key: str, answer: Answer, wanted: int | None) -> Response:
    """
    Return what came of a write, or raise the problem that it is.
    """
    refusal = refusal_of(key, answer, wanted)
    if refusal is not None:
        raise refusal
    job = None if answer.outcome is Outcome.CANCELLED else answer.job  # what was cancelled has no tag any more
    headers = {} if job is None else {"etag": etag(job)}
    return document_reply(answer_document(answer), _STATUS.get(answer.outcome, 200), headers)


def refusal_of(key: str, answer: Answer, wanted: int | None) -> ProblemError | None:
    """
    Return the problem that *answer* is to a write that asked for generation *wanted*, or None.
    """
    if answer.outcome is Outcome.NOT_FOUND:
        return ProblemError("job_not_found", f"no job has the key {show(key)}", value=key)
    if answer.outcome is Outcome.TOO_LATE:
        return ProblemError("too_late", f"job {show(key)} is running", value=key)
    if answer.outcome is Outcome.WRONG_GENERATION:
        found = "there is none" if answer.job is None else f"it has {answer.job.generation}"
        asked = "no job" if wanted == 0 else f"generation {wanted}"
        headers = {} if answer.job is None else {"etag": etag(answer.job)}
        return ProblemError(
            "wrong_generation", f"{asked} was asked for at {show(key)}: {found}", value=wanted, headers=headers
        )
    return None


def problem_of(error: Exception) -> ProblemError | None:  # noqa: PLR0911  a table, one row an error
    """
    Return the problem that *error* is for a client, or None where it is a fault of ours.
    """
    match error:
        case ProblemError():
            return error
        case InvalidJobError() | InvalidDelayError():
            return ProblemError("invalid_value", str(error), value=error.value)
        case HandlerNotFoundError():
            return ProblemError("unknown_handler", f"no handler is named {show(error.handler)}", value=error.handler)
        case TooManyTimersError():
            return ProblemError("too_many_requests", str(error), headers={"retry-after": "1"})
        case StoreError() | ClosedError():
            return ProblemError("store_unavailable", str(error), headers={"retry-after": "1"})
        case HTTPException(status_code=405):
            return ProblemError("method_not_allowed", "this address takes GET, HEAD", headers={"allow": "GET, HEAD"})
        case HTTPException():  # only the page's files raise it
            return ProblemError("page_not_found", "there is no such file")
    return None


def problem_reply(scope: Scope, error: Exception) -> Response:
    """
    Answer *error*; one that is nobody's mistake but ours is logged, and told without its inside.
    """
    problem = problem_of(error)
    if problem is None:
        _LOG.error("%s %s failed", scope["method"], show(scope["path"]), exc_info=error)
        problem = ProblemError("internal_error", "the service failed on this request")
    return Response(
        encode(problem.document()), problem.kind.status, problem.headers, media_type="application/problem+json"
    )
