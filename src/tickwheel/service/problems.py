"""
Every error answer, as a table of RFC 9457 problems.

Besides the standard members, a problem has `value` and `remedy`. Its `type` is a relative address, as the standard
allows. At this address, the service explains the problem.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

__all__ = ["PROBLEM_TYPES", "ProblemError", "ProblemType", "show"]

SHOWN_MAX: Final = 100
"""Maximum number of characters shown of a refused value: enough to identify the value, but too few to echo a body."""
_BYTES_MAX: Final = 4 * (SHOWN_MAX + 1)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class ProblemType:
    """
    One type of problem. *name* is the last part of the problem's `type`, and *remedy* is the default remedy.
    """

    name: str
    status: int
    title: str
    remedy: str


_TYPES: Final = (
    ProblemType("malformed_request", 400, "The request cannot be read", "mend the part that the detail names"),
    ProblemType(
        "malformed_json",
        400,
        "The body is not strict JSON",
        "send one complete JSON object in UTF-8, without NaN, repeated names or deep nesting",
    ),
    ProblemType(
        "unauthorized",
        401,
        "A token is needed",
        "send the header 'Authorization: Bearer TOKEN' with a token of this service",
    ),
    # The token does not allow the operation or the key, or a page of another site sent the request.
    ProblemType(
        "forbidden", 403, "This is not allowed", "use a write token, from a client of this service's own origin"
    ),
    ProblemType(
        "job_not_found",
        404,
        "There is no such job",
        "look at its firings, or set it again: it was never set, has run, or was cancelled",
    ),
    ProblemType("page_not_found", 404, "There is nothing at this address", "see /openapi.json for what there is"),
    ProblemType(
        "method_not_allowed",
        405,
        "This address does not take this method",
        "use one of the methods in the Allow header",
    ),
    ProblemType("slow_request", 408, "The request did not arrive in time", "send the whole request at once"),
    ProblemType(
        "too_late",
        409,
        "It is too late: the job is running",
        "wait until it has ended, or set the key again for another firing",
    ),
    # No worker, or another worker, holds the firing.
    ProblemType(
        "lease_ended",
        409,
        "The lease has ended",
        "drop the work, whose firing is repeated or superseded; take longer leases, or extend them in time",
    ),
    ProblemType("wrong_generation", 412, "The job has another generation", "read the job again before you decide"),
    ProblemType(
        "too_large", 413, "The body is too large", "send less; keep large data elsewhere and its address in the payload"
    ),
    ProblemType(
        "unsupported_media_type",
        415,
        "The body has a type that is not read here",
        "send JSON with the header 'Content-Type: application/json'",
    ),
    ProblemType(
        "wrong_host",
        421,
        "The request names a host that this service is not",
        "use the address that the service printed, or start it with --allow-host NAME",
    ),
    # The value is well-formed, but no job can have it.
    ProblemType("invalid_value", 422, "A value cannot be used", "mend the value that the detail names"),
    ProblemType(
        "unknown_handler",
        422,
        "No such handler is registered",
        "start the service with --handlers MODULE that registers it, or use the target 'log' or 'webhook'",
    ),
    ProblemType(
        "idempotency_key_reused",
        422,
        "The Idempotency-Key was used for another request",
        "take a new key for each request, and the same one only to send the same request again",
    ),
    ProblemType("too_many_requests", 429, "Too much at once", "wait as long as the Retry-After header says"),
    ProblemType("internal_error", 500, "A fault of the service", "see the service's log"),
    ProblemType(
        "store_unavailable", 503, "The store did not answer", "try again after a moment; see the service's log"
    ),
)
PROBLEM_TYPES: Final = {kind.name: kind for kind in _TYPES}


def show(value: object) -> str:
    """
    Return *value* as a client wrote it: text in single quotes, other values as JSON.

    The text is shortened, and is valid UTF-8. Only the beginning of *value* is read, because it may have megabytes.
    """
    if isinstance(value, bytes):
        value = value[:_BYTES_MAX].decode("utf-8", "backslashreplace")
    if isinstance(value, Raw):
        text = bytes(memoryview(value)[:_BYTES_MAX]).decode("utf-8", "backslashreplace")
    elif isinstance(value, str):
        text = ascii(value[: SHOWN_MAX + 1]) if len(value) > SHOWN_MAX else repr(value)
    else:
        text = ""
        try:
            for part in _ENCODER.iterencode(value):  # in small pieces
                text += part
                if len(text) > SHOWN_MAX:
                    break
        except TypeError:  # a name that is not text; only MessagePack allows it
            text = f"<{type(value).__name__}>"
    text = text[: SHOWN_MAX + 1].encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."


class ProblemError(Exception):
    def __init__(
        self,
        name: str,
        detail: str,
        *,
        value: object = ...,
        remedy: str | None = None,
        headers: dict[str, str] | None = None,
        job: object = None,
        is_unknown: bool = False,
    ) -> None:
        """
        Describe a problem of the type *name*. *detail* is one sentence, and *value* is the refused value.

        Pass *job* if the problem concerns a job, and *is_unknown* if the write may still have taken effect.
        """
        super().__init__(detail)
        self.kind = PROBLEM_TYPES[name]
        self.detail = detail
        self.value = value
        self.remedy = remedy or self.kind.remedy
        self.headers = headers or {}
        self.job = job
        self.is_unknown = is_unknown

    def document(self) -> dict[str, object]:
        document: dict[str, object] = {
            "type": f"/problems/{self.kind.name}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "remedy": self.remedy,
        }
        if self.value is not ...:
            document["value"] = show(self.value)
        if self.job is not None:
            document["job"] = self.job
        if self.is_unknown:
            document["is_unknown"] = True
        return document
