"""
Changes some fields of a job, and keeps all others.

The job is read, and then set again only if its generation is unchanged. No concurrent change is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tickwheel.client.condition import on_what_is_read
from tickwheel.host.registry import Registry
from tickwheel.jobs import checks
from tickwheel.jobs.change import ChangeFields, change_fields
from tickwheel.jobs.definition import Definition
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import STOPPED, Actor, Answer, Job, Set, State
from tickwheel.jobs.recurrence import Cron, Dates, Interval, Misfire, Recurrence, in_phase_of
from tickwheel.jobs.recurring import first_run, interval_of, no_run
from tickwheel.jobs.requests import SetRequest
from tickwheel.jobs.retry import check_policy

if TYPE_CHECKING:
    from tickwheel.client.client import Client

__all__ = ["changed"]

_OF_RULE: Final = ("every", "time", "cron", "day_match", "tz", "dst_gap", "dst_overlap")
_TIMED: Final = frozenset((*_OF_RULE, "exclude"))
"""Fields whose change recomputes the due time."""

_PARTS: Final = {
    **dict.fromkeys(_OF_RULE, ("rule", "exclude")),  # exclusions are read in the zone of the rule
    "misfire": ("misfire", "grace_ms"),
    "misfire_grace": ("grace_ms",),
    "overlap": ("overlap",),
    "jitter": ("jitter_ms",),
    "until": ("until",),
    "max_runs": ("max_runs",),
    "pause_after": ("pause_after",),
    "exclude": ("exclude",),
}
"""For each field of a rule, the attributes of a `Recurrence` that the field determines."""


def changed(client: Client, registry: Registry, key: str, fields: ChangeFields, if_generation: int | None) -> Answer:
    change_fields(fields)

    def write(job: Job) -> Answer:
        def writes(_now: int, actor: Actor | None) -> list[Set]:
            if "every" in fields:  # a new interval counts from now: read the store's clock
                client.sample()
            latest = client.clock.reading_for_delay()[2]
            return _writes(job, fields, registry, latest, actor)

        return client.write("change", writes).result()[0]

    return on_what_is_read(client.get, key, if_generation, write)


def _writes(job: Job, fields: ChangeFields, registry: Registry, now: int, actor: Actor | None) -> list[Set]:
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
    if fields.keys() & {"payload", "target", "handler"}:
        registry.check_payload(after)
    noted = None if actor is None or (recurrence is None and not actor.is_always) else actor
    due_at = job.due_at if recurrence is None else None
    return [Set(after, if_generation=job.generation, if_due_at=due_at, actor=noted)]


def _ruled(job: Job, before: Recurrence, given: dict[str, Any], now: int) -> Recurrence:
    if not given:
        return before
    has_new_rule = "every" in given or "cron" in given
    _, text = first_run(SetRequest(job.key, **_as_set(before, given, has_new_rule=has_new_rule)), job.key, None, now)
    asked = Recurrence.from_text(text)
    if not has_new_rule:  # for example, only another zone: keep the old phase
        asked = replace(asked, rule=in_phase_of(asked.rule, before.rule, None, job.due_at))
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
    rule = before.rule
    fields: dict[str, Any] = {
        "misfire": before.misfire,
        "overlap": before.overlap,
        "max_runs": before.max_runs,
        "exclude": [str(each) for each in before.exclude],
        "tz": rule.tz,
    }
    if not has_new_rule:
        fields |= {"cron": rule.line} if isinstance(rule, Cron) else {"every": rule.length}
    if isinstance(rule, Dates) and "cron" not in given:
        fields["time"] = rule.time
    if before.misfire is Misfire.SKIP and given.get("misfire", Misfire.SKIP) == Misfire.SKIP:
        fields["misfire_grace"] = before.grace_ms / 1000
    fields |= given
    if interval_of(fields.get("every"), fields.get("cron")) is None:
        usual: dict[str, Any] = {"day_match": rule.day_match} if isinstance(rule, Cron) else {}
    elif fields.get("time") is None:
        return fields  # an interval does not follow the wall clock
    else:
        usual = {}
    if not isinstance(rule, Interval):
        usual |= {"dst_gap": rule.dst_gap, "dst_overlap": rule.dst_overlap}
    return usual | fields
