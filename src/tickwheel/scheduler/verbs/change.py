"""
Change some of a job, and leave the rest of it as it is.

The job is read, and set again on the condition that it is still pending, of the same generation and due at the same
instant: so the rules of what depends on what are here alone, and nothing that others did meanwhile is undone.

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
from tickwheel.scheduler.errors import InvalidJobError, InvalidRecurrenceError
from tickwheel.scheduler.model import STOPPED, Actor, Answer, Job, RetryPolicy, Set
from tickwheel.scheduler.recurrence import Cron, Interval, Misfire, Recurrence
from tickwheel.scheduler.verbs._condition import on_what_is_read
from tickwheel.scheduler.verbs.recurring import first_run
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
        every: Another interval, the first run one interval from now; in place of a cron line, too.
        cron: Another line; in place of an interval, too.
        tz: Another zone of `cron` and `exclude`.
        misfire: What to do about missed runs.
        misfire_grace: With "skip", how late a run may begin; None for a minute.
        overlap: What to do about instants that pass while a run lasts; None for what is so by default.
        jitter: Seconds over which the runs of different keys are spread.
        until: The instant after which no run is due, or None for no end.
        max_runs: After how many runs from now on the job is gone, or None for no end.
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
    "max_runs": ("runs_left",),
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
    target, handler = fields.get("target", job.target), fields.get("handler", job.handler) or ""
    if "target" in fields or "handler" in fields:
        registry.check(target, handler)
    retry = job.retry
    if "retry" in fields:
        policy = fields["retry"]
        retry = registry.retry_of(target, handler) if policy is None else check_policy(policy)
    due_at, recurrence = job.due_at, job.recurrence
    rule: dict[str, Any] = {name: value for name, value in fields.items() if name in _PARTS}
    if rule and recurrence is None:
        name, value = next(iter(rule.items()))
        raise InvalidJobError(name, value, "the job fires once: set it again, with every= or cron=")
    if rule and recurrence is not None:
        due_at, recurrence = _rescheduled(job, Recurrence.from_text(recurrence), rule, now)
    expires_at = job.expires_at
    if "expires" in fields:
        expires = fields["expires"]
        expires_at = None if expires is None else due_at + checks.span_ms("expires", expires)
        recurrence = _without_length(recurrence)
    elif expires_at not in (None, STOPPED) and due_at != job.due_at:
        length = None if recurrence is None else Recurrence.from_text(recurrence).expires_ms
        expires_at = due_at + (expires_at - job.due_at if length is None else length)
        recurrence = _without_length(recurrence)
    after = replace(
        job,
        due_at=due_at,
        payload=checks.encode_payload(fields["payload"]) if "payload" in fields else job.payload,
        target=target,
        handler=handler,
        retry=retry,
        expires_at=expires_at,
        recurrence=recurrence,
    )
    noted = None if actor is None or (recurrence is None and not actor.is_always) else actor
    return [Set(after, if_generation=job.generation, if_due_at=job.due_at, actor=noted)]


def _without_length(text: str | None) -> str | None:
    """
    Return a recurrence without what a run that is tried again keeps there: how long it is worth firing.
    """
    return text and replace(Recurrence.from_text(text), expires_ms=None).to_text()


def _rescheduled(job: Job, before: Recurrence, given: dict[str, Any], now: int) -> tuple[int, str]:
    """
    Return the instant of *job* by its rule with what is *given*, and the rule's text.

    The instant stays unless the series is another one; that of a run which is tried again stays in any case.
    """
    has_new_rule = "every" in given or "cron" in given
    _, text = first_run(SetRequest(job.key, **_as_set(before, given, has_new_rule=has_new_rule)), job.key, None, now)
    asked = Recurrence.from_text(text)
    if not has_new_rule and isinstance(asked.rule, Interval) and isinstance(before.rule, Interval):
        asked = replace(asked, rule=replace(asked.rule, anchor_at=before.rule.anchor_at))  # another zone, the old phase
    parts = {part for name in given for part in _PARTS[name]}
    after = replace(before, **{part: getattr(asked, part) for part in parts})
    shift, is_timed, rule, begins = after.shift_ms(job.key), bool(given.keys() & _TIMED), after.rule, now
    if has_new_rule and isinstance(rule, Interval):
        begins = rule.anchor_at - rule.every_ms + 1  # the first run is one interval from now
    if is_timed and after.run_at is not None:
        after = replace(after, run_at=max(begins, after.run_at))  # the new series begins now, and makes up for nothing
    if after.next_at is not None:
        after = replace(after, next_at=None if is_timed else after.next_at + shift - before.shift_ms(job.key))
    if not is_timed or job.attempt or before.run_at is not None:
        due_at = job.due_at + shift - before.shift_ms(job.key)
    else:
        found = after.next(job.key, begins - 1 + shift)
        if found is None:
            raise InvalidRecurrenceError("until", after.until, "no run is due until then: name a later instant")
        due_at = max(now, found)
    last = max(due_at, after.next_at or due_at)
    if "until" in given and after.until is not None and last - shift > after.until:
        raise InvalidRecurrenceError("until", given["until"], "no run is due until then: name a later instant")
    return due_at, after.to_text()


def _as_set(before: Recurrence, given: dict[str, Any], *, has_new_rule: bool) -> dict[str, Any]:
    """
    Return the fields of a set that makes the rule *before* with what is *given*.
    """
    rule = before.rule
    fields: dict[str, Any] = {
        "misfire": before.misfire,
        "overlap": before.overlap,
        "max_runs": before.runs_left,
        "exclude": [str(each) for each in before.exclude],
        "tz": rule.tz,
    }
    if not has_new_rule:
        fields |= {"cron": rule.line} if isinstance(rule, Cron) else {"every": rule.every_ms / 1000}
    if before.misfire is Misfire.SKIP and given.get("misfire", Misfire.SKIP) == Misfire.SKIP:
        fields["misfire_grace"] = before.grace_ms / 1000
    return fields | given
