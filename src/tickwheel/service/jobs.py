"""
The jobs: set, move, cancel, get, list, run now, replay.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tickwheel.scheduler import AsyncScheduler, HandlerNotFoundError, Page
from tickwheel.service.http import Call, Reply
from tickwheel.service.intake import job_key, query, read_body, to_count, to_instant, wanted_generation
from tickwheel.service.options import ServiceOptions
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.replies import answer_reply, document_reply, job_reply
from tickwheel.service.strict_json import decode
from tickwheel.service.wire import MoveBody, PageDocument, SetBody, job_document

__all__ = ["PREFIX", "Jobs"]

PREFIX: Final = b"/v1/jobs/"
"""What stands before the key in the address of a job."""
_LIST_FIELDS: Final = frozenset({"prefix", "state", "handler", "due_from", "due_until", "order", "cursor", "limit"})
_ORDERS: Final = ("key", "due")
_SET: Final = msgspec.json.Decoder(SetBody)
_MOVE: Final = msgspec.json.Decoder(MoveBody)


class Jobs:
    """
    The operations on jobs, each a Starlette endpoint.
    """

    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions) -> None:
        """
        Serve the jobs of *scheduler*.
        """
        self._scheduler = scheduler
        self._options = options

    async def set(self, call: Call) -> Reply:
        """
        Set the job of this key, or replace it.
        """
        key, wanted = _key(call), wanted_generation(call)
        body = decode(await read_body(call, self._options.body_bytes_max), _SET)
        if body.target == "handler" and body.handler and not self._scheduler.has_handler(body.handler):
            raise HandlerNotFoundError(body.handler)  # we are the one that would fire it
        answer = await self._scheduler.set(key, if_generation=wanted, **body.fields())
        return answer_reply(key, answer, wanted)

    async def move(self, call: Call) -> Reply:
        """
        Give a pending job another instant.
        """
        key, wanted = _key(call), wanted_generation(call)
        body = decode(await read_body(call, self._options.body_bytes_max), _MOVE)
        answer = await self._scheduler.move(key, if_generation=wanted, **body.fields())
        return answer_reply(key, answer, wanted)

    async def cancel(self, call: Call) -> Reply:
        """
        Cancel a pending job, or remove a dead one.
        """
        key, wanted = _key(call), wanted_generation(call)
        return answer_reply(key, await self._scheduler.cancel(key, if_generation=wanted), wanted)

    async def get(self, call: Call) -> Reply:
        """
        Return the job of this key.
        """
        key = _key(call)
        job = await self._scheduler.get(key)
        if job is None:
            raise ProblemError("job_not_found", f"no job has the key {show(key)}", value=key)
        return job_reply(job)

    async def act(self, call: Call) -> Reply:
        """
        Do what the address ends in: `:run` a pending job now, or `:replay` a dead one.
        """
        action = call.path.rpartition(":")[2]
        do = {"run": self._scheduler.run_now, "replay": self._scheduler.replay}.get(action)
        if do is None:
            raise ProblemError(
                "page_not_found", f"there is no action {show(action)}", value=action, remedy="use :run or :replay"
            )
        key, wanted = _key(call, f":{action}"), wanted_generation(call)
        return answer_reply(key, await do(key, if_generation=wanted), wanted)

    async def list(self, call: Call) -> Reply:
        """
        Return one page of the jobs that the query asks for.
        """
        fields = query(call, _LIST_FIELDS)
        arguments = _list_arguments(fields, self._options.page_max)
        if _is_by_due(arguments):
            page = Page(tuple(await self._scheduler.upcoming(**arguments)))
        else:
            page = await self._scheduler.list(**arguments)
        return document_reply(PageDocument([job_document(job) for job in page.jobs], page.cursor))


def _list_arguments(fields: dict[str, str], page_max: int) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(fields)
    for name in ("due_from", "due_until"):
        if name in fields:
            arguments[name] = to_instant(name, fields[name])
    if "limit" in fields:
        arguments["limit"] = to_count("limit", fields["limit"], page_max)
    return arguments


def _is_by_due(arguments: dict[str, Any]) -> bool:
    """
    Take `order` from *arguments*, and tell whether it is by instant, which only pending jobs of any key are listed in.
    """
    order = arguments.pop("order", "key")
    if order not in _ORDERS:
        raise ProblemError("invalid_value", f"order is {show(order)}: give one of {', '.join(_ORDERS)}", value=order)
    others = arguments.keys() - {"due_from", "due_until", "limit"}
    if order == "due" and others:
        remedy = f"leave out {', '.join(sorted(others))}, or list in the order of the keys"
        raise ProblemError(
            "invalid_value",
            f"order is 'due', which lists pending jobs by their instant: {remedy}",
            value=order,
            remedy=remedy,
        )
    return bool(order == "due")


def _key(call: Call, action: str = "") -> str:
    return job_key(call.raw_path[len(PREFIX) :], action)
