from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from tickwheel.errors import MissingExtraError
from tickwheel.host.lane_names import LaneNames
from tickwheel.host.options import SchedulerOptions
from tickwheel.host.runtime import Runtime
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import EVERYTHING, Job, RetryPolicy, Set
from tickwheel.jobs.near import near
from tickwheel.jobs.retry import check_policy
from tickwheel.observe.events import Event
from tickwheel.stores import Skill
from tickwheel.targets import (
    DEFAULT,
    Call,
    Checking,
    Choosy,
    HasHandlers,
    Limiting,
    Limits,
    Reporting,
    Requiring,
    Target,
)
from tickwheel.targets.handler import HandlerTarget
from tickwheel.targets.log import LogTarget
from tickwheel.targets.pull import PullTarget
from tickwheel.targets.webhook import WebhookTarget

__all__ = ["Registry"]

_log = logging.getLogger("tickwheel.registry")

_CALLS_MAX = 10_000
"""Maximum number of handlers in each cache, because each job may have a new webhook URL."""


class Registry:
    def __init__(self, targets: Mapping[str, Target], options: SchedulerOptions, runtime: Runtime) -> None:
        self._timeout_s = checks.limit_s("timeout_s", options.timeout_s)
        self.lanes = LaneNames()
        self.handlers = HandlerTarget(self._timeout_s, self._registered)
        self.pulls = PullTarget(runtime.lock())
        self._retry = check_policy(options.retry)
        self._targets: dict[str, Target] = {
            "handler": self.handlers,
            "log": LogTarget(),
            "webhook": WebhookTarget(),
            "pull": self.pulls,
            **targets,
        }
        self._choosy = {name: each for name, each in self._targets.items() if isinstance(each, Choosy)}
        # Computed once: isinstance with a protocol costs as much as the rest of setting a job.
        self._checking = {name: each for name, each in self._targets.items() if isinstance(each, Checking)}
        self._limiting = {name: each for name, each in self._targets.items() if isinstance(each, Limiting)}
        self._calls: dict[tuple[str, str], Call] = {}
        self._skills: tuple[Skill, ...] = ()
        self._lacking: dict[str, str] = {}
        """The targets whose libraries are not installed, each with the name of a handler."""
        self._able: set[tuple[str, str]] = set()
        self._listener: Callable[[], object] | None = None
        self._checked: set[tuple[str, str]] = set()

    def check(self, target: str, handler: str | None) -> None:
        if type(handler) is str and (target, handler) in self._checked:
            return
        name = checks.check_handler(handler or "")
        self._target(target).check(name)
        if len(self._checked) < _CALLS_MAX:
            self._checked.add((target, name))

    def check_payload(self, job: Job) -> None:
        target = self._checking.get(job.target)
        if target is not None:
            target.check_payload(job.payload)

    def check_payloads(self, writes: Iterable[Set]) -> None:
        checking = self._checking
        for write in writes:
            target = checking.get(write.job.target)
            if target is not None:
                target.check_payload(write.job.payload)

    def check_scope(self, scope: str) -> None:
        if scope != EVERYTHING:
            self._target(scope.partition(":")[0])

    def retry_of(self, target: str, handler: str) -> RetryPolicy:
        policy = self.handlers.policy(handler) if target == "handler" else None
        return policy or self._retry

    def limits_of(self, job: Job) -> Limits | None:
        target = self._limiting.get(job.target)
        return None if target is None else target.limits(job.handler)

    def call_of(self, job: Job) -> Call:
        name = (job.target, job.handler)
        call = self._calls.get(name)
        if call is None:
            call = self._target(job.target).resolve(job.handler)
            if call.timeout_s is DEFAULT:
                call = replace(call, timeout_s=self._timeout_s)
            if len(self._calls) < _CALLS_MAX:
                self._calls[name] = call
        return call

    def can_run(self, target: str, handler: str) -> bool:
        name = (target, handler)
        if name in self._able:
            return True
        there = self._targets.get(target)
        is_able = there is not None and (not isinstance(there, HasHandlers) or there.has(handler))
        if is_able and there is not None:
            try:
                there.resolve(handler)
            except MissingExtraError:
                is_able = False
                self._lacking[target] = handler
                self._skills = ()
            except Exception:  # noqa: BLE001  no other node could run it either; its firing reports the reason
                return True
        if is_able and len(self._able) < _CALLS_MAX:
            self._able.add(name)
        return is_able

    def skills(self) -> tuple[Skill, ...]:
        if not self._skills:
            skills: list[Skill] = []
            for name, target in self._targets.items():
                if name not in self._lacking:
                    names = target.names() if isinstance(target, HasHandlers) else [None]
                    skills += [(name, each) for each in names]
            self._skills = tuple(skills)
        return self._skills

    @property
    def is_complete(self) -> bool:
        return not self._lacking

    def look_again(self) -> None:
        for target, handler in [*self._lacking.items()]:
            del self._lacking[target]
            self._skills = ()
            self.can_run(target, handler)

    def lack_of(self, target: str, handler: str) -> str | None:
        if self.can_run(target, handler):
            return None
        if target in self._lacking:
            return f"a library that the target {target!r} needs is missing here: install it"
        if target not in self._targets:
            return f"there is no target {target!r} here: the targets are {', '.join(self._targets)}"
        names = sorted(cast("HasHandlers", self._targets[target]).names())
        others = f", but {', '.join(map(repr, names))}" if names else ""
        meant = near(handler, names)
        remedy = f"correct the job's handler={'' if meant is None else f' (did you mean {meant!r}?)'}"
        return f"no handler {handler!r} is registered here{others}: register it, or {remedy}"

    def listen(self, listener: Callable[[], object]) -> None:
        self._listener = listener

    def misfit(self, job: Job) -> str | None:
        target = self._choosy.get(job.target)
        return None if target is None else target.misfit(job.handler, job.payload)

    def is_choosy(self, target: str, handler: str) -> bool:
        there = self._choosy.get(target)
        return there is not None and there.is_choosy(handler)

    def _registered(self) -> None:
        self.lanes.update(self.handlers)
        self._skills = ()
        self._calls.clear()  # middleware may have changed
        self._checked.clear()  # tasks may have changed
        if self._listener is not None:
            self._listener()

    def report_to(self, emit: Callable[[Event], object]) -> None:
        for target in self._targets.values():
            if isinstance(target, Reporting):
                target.report_to(emit)

    def warn_of_missing(self) -> None:
        for name, target in self._targets.items():
            if isinstance(target, Requiring):
                try:
                    target.require()
                except MissingExtraError as error:
                    _log.warning("jobs of the target %r cannot be sent here: %s", name, error)

    def figures(self) -> dict[str, Any]:
        return {name: each.figures() for name, each in self._targets.items() if isinstance(each, Reporting)}

    def closers(self) -> list[Callable[[], Awaitable[None]]]:
        return [target.close for target in self._targets.values()]

    def _target(self, name: str) -> Target:
        target = self._targets.get(name)
        if target is None:
            remedy = "name one of them, or add yours with targets= or 'tickwheel serve --target NAME=URL'"
            raise InvalidJobError("target", name, f"the targets here are {', '.join(self._targets)}: {remedy}")
        return target
