"""
Change some of a job, and leave the rest of it as it is.

The job is read, and set again on the condition that it still has the same generation and, where it fires once, is
pending and due at the same instant: so nothing that others did meanwhile is undone. A recurring job goes on as it does
when it is set: see `stores._series`.

Internal: other rooms use it, users do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict

from tickwheel.scheduler import checks
from tickwheel.scheduler._registry import Registry
from tickwheel.scheduler._retry import check_policy
from tickwheel.scheduler.definition import Definition
from tickwheel.scheduler.errors import InvalidJobError
from tickwheel.scheduler.model import STOPPED, Actor, Answer, Job, RetryPolicy, Set, State
from tickwheel.scheduler.recurrence import Cron, Interval, Misfire, Recurrence
from tickwheel.scheduler.verbs._condition import on_what_is_read
from tickwheel.scheduler.verbs.recurring import first_run, no_run
from tickwheel.scheduler.verbs.requests import SetRequest
from tickwheel.typing import Duration, Instant

if TYPE_CHECKING:
    from tickwheel.scheduler.verbs.client import Client

__all__ = ["ChangeFields", "change_fields", "changed"]

_TIMED: Final = frozenset(("every", "cron", "tz", "exclude"))
"""A rule with another one of these is due by that, and not when it was."""


class ChangeFields(TypedDict, total=False):
    """
    The keyword arguments of `change`; they mean what they mean in `SetRequest`.

    Attributes:
        payload: Another payload; None is one, too.
        target: Another kind of place.
        handler: Another one of that kind.
        retry: Another policy; None for that of the handler, or else the scheduler's.
        expires: Seconds after its instant, or None for no end.
        every: Another interval, counted from the last nominal run; in place of a cron line, from now.
        cron: Another line; in place of an interval, too.
        tz: Another zone of `cron` and `exclude`.
        misfire: What to do about missed runs.
        misfire_grace: With "skip", how late a run may begin; None for a minute.
        overlap: What to do about instants that pass while a run lasts; None for what is so by default.
        jitter: Seconds over which the runs of different keys are spread.
        until: The instant after which no run is due, or None for no end.
        max_runs: After how many runs since the series began the job is gone, or None for no end.
        exclude: What is left out of the series, in place of what was.
    """

    payload: Any
    target: str
    handler: str | None
    retry: RetryPolicy | None
    expires: Duration | None
    every: Duration
    cron: str
    tz: str
    misfire: str
    misfire_grace: Duration | None
    overlap: str | None
    jitter: Duration
    until: Instant | None
    max_runs: int | None
    exclude: Sequence[str | date]


_FIELDS: Final = tuple(ChangeFields.__annotations__)
_PARTS: Final = {
    "every": ("rule", "exclude"),  # which is read in its zone
    "cron": ("rule", "exclude"),
    "tz": ("rule", "exclude"),
    "misfire": ("misfire", "grace_ms"),
    "misfire_grace": ("grace_ms",),
    "overlap": ("overlap",),
    "jitter": ("jitter_ms",),
    "until": ("until",),
    "max_runs": ("max_runs",),
    "exclude": ("exclude",),
}
"""What each field of a rule decides of a `Recurrence`; all else of it stays to the letter."""


def change_fields(fields: ChangeFields) -> ChangeFields:
    """
    Return *fields* if there is any, and all are known.

    Raises:
        InvalidJobError: If there is none.
        TypeError: For another name, as for any unknown argument.
    """
    for name in fields:
        if name not in _FIELDS:
            message = f"change() got an unexpected keyword argument {name!r}"
            raise TypeError(message)
    if not fields:
        raise InvalidJobError("fields", {}, f"name what to change: {', '.join(_FIELDS)}")
    return fields


def changed(client: Client, registry: Registry, key: str, fields: ChangeFields, if_generation: int | None) -> Answer:
    """
    Change *fields* of the job of *key*, and return what came of it; blocks.

    Raises:
        InvalidJobError: For a value that the job cannot have.
        StoreError: Transient, if others keep changing it.
    """
    change_fields(fields)

    def write(job: Job) -> Answer:
        return client.write("change", partial(_writes, job, fields, registry)).result()[0]

    return on_what_is_read(client.get, key, if_generation, write)


def _writes(job: Job, fields: ChangeFields, registry: Registry, now: int, actor: Actor | None) -> list[Set]:
    """
    Return the one write that changes *fields* of *job*.
    """
    was = job if job.recurrence is None else Definition.at_last(job)
    target, handler = fields.get("target", was.target), fields.get("handler", was.handler) or ""
    if "target" in fields or "handler" in fields:
        registry.check(target, handler)
    retry = was.retry
    if "retry" in fields:
        policy = fields["retry"]
        retry = registry.retry_of(target, handler) if policy is None else check_policy(policy)
    rule: dict[str, Any] = {name: value for name, value in fields.items() if name in _PARTS}
    if rule and job.recurrence is None:
        name, value = next(iter(rule.items()))
        raise InvalidJobError(name, value, "the job fires once: set it again, with every= or cron=")
    recurrence, length = job.recurrence, None
    if isinstance(was, Definition):
        length = was.expires_ms
        recurrence = _ruled(job, was.series, rule, now).to_text()
    elif job.expires_at not in (None, STOPPED):
        length = job.expires_at - job.due_at
    if "expires" in fields:
        expires = fields["expires"]
        length = None if expires is None else checks.span_ms("expires", expires)
    after = replace(
        job,
        payload=checks.encode_payload(fields["payload"]) if "payload" in fields else was.payload,
        target=target,
        handler=handler,
        retry=retry,
        expires_at=job.expires_at if job.expires_at == STOPPED else None if length is None else job.due_at + length,
        recurrence=recurrence,
    )
    noted = None if actor is None or (recurrence is None and not actor.is_always) else actor
    due_at = job.due_at if recurrence is None else None
    return [Set(after, if_generation=job.generation, if_due_at=due_at, actor=noted)]


def _ruled(job: Job, before: Recurrence, given: dict[str, Any], now: int) -> Recurrence:
    """
    Return the rule *before* of *job* with what is *given*.

    Raises:
        InvalidRecurrenceError: If no run is due by it.
    """
    if not given:
        return before
    has_new_rule = "every" in given or "cron" in given
    _, text = first_run(SetRequest(job.key, **_as_set(before, given, has_new_rule=has_new_rule)), job.key, None, now)
    asked = Recurrence.from_text(text)
    if not has_new_rule and isinstance(asked.rule, Interval) and isinstance(before.rule, Interval):
        asked = replace(asked, rule=replace(asked.rule, anchor_at=before.rule.anchor_at))  # another zone, the old phase
    parts = {part for name in given for part in _PARTS[name]}
    after = replace(before, **{part: getattr(asked, part) for part in parts})
    series = Recurrence.from_text(job.recurrence or "")
    if ("until" in given or given.keys() & _TIMED) and job.state is State.PENDING:
        due_at, left = series.turned_into(after, job.key, job.due_at, now, has_begun=job.attempt > 0)
        last = max(due_at or 0, left.next_at or 0) - left.shift_ms(job.key)
        if due_at is None or ("until" in given and after.until is not None and last > after.until):
            raise no_run(after.until)
    return after


def _as_set(before: Recurrence, given: dict[str, Any], *, has_new_rule: bool) -> dict[str, Any]:
    """
    Return the fields of a set that makes the rule *before* with what is *given*.
    """
    rule = before.rule
    fields: dict[str, Any] = {
        "misfire": before.misfire,
        "overlap": before.overlap,
        "max_runs": before.max_runs,
        "exclude": [str(each) for each in before.exclude],
        "tz": rule.tz,
    }
    if not has_new_rule:
        fields |= {"cron": rule.line} if isinstance(rule, Cron) else {"every": rule.every_ms / 1000}
    if before.misfire is Misfire.SKIP and given.get("misfire", Misfire.SKIP) == Misfire.SKIP:
        fields["misfire_grace"] = before.grace_ms / 1000
    return fields | given
