"""
The knobs of a scheduler; the defaults are meant to stay.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field, fields
from typing import Final

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import USUAL_RETRY, RetryPolicy
from tickwheel.jobs.retry import check_policy
from tickwheel.typing import Duration

__all__ = ["HistoryOptions", "SchedulerOptions", "loan_of", "owner_name", "share_of"]

_KEPT: Final = ("none", "failures", "usual", "all")


class _ProcessName(str):
    """
    The name of a process by its host and id, which is not that of its children.
    """

    __slots__ = ()

    @classmethod
    def now(cls) -> _ProcessName:
        """
        Return the name of this process.
        """
        return cls(f"{socket.gethostname()}:{os.getpid()}")


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or value < 1:
        raise InvalidJobError(name, value, "pass an integer, at least 1")


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """
    The part of the past that the store keeps, and its limits.

    Attributes:
        keep: "usual": each attempt that failed, died or expired, and of recurring jobs each run and each act, that is
            by whom they were set, moved, cancelled, replayed or paused, and each success whose handler noted something,
            such as a result; "failures": only what failed, died or expired;
            "all": the same of jobs that fire once, for one more row each, and each snooze; or "none".
        age_s: For how many seconds, or a timedelta or text such as "7d"; 30 days.
        per_key: How many records of one key.
        total: How many in the whole store. All three are looked after once a minute, on SQLite
            once an hour where nothing was recorded: until then there may be more.
    """

    keep: str = "usual"
    age_s: Duration = 2_592_000.0
    per_key: int = 100
    total: int = 50_000

    def __post_init__(self) -> None:
        """
        Refuse what nothing can work with.

        Raises:
            InvalidJobError: Naming the option.
            TypeError: For a time that is none.
        """
        if self.keep not in _KEPT:
            raise InvalidJobError("keep", self.keep, f"pass one of {', '.join(_KEPT)}")
        if not 0 < checks.seconds("age_s", self.age_s) <= checks.CENTURY_S:
            raise InvalidJobError("age_s", self.age_s, "pass seconds, more than 0, at most a century")
        for name in ("per_key", "total"):
            _check_count(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """
    The options of a scheduler: limits, horizon, and what holds for jobs and handlers that say nothing.

    Seconds may be a timedelta or text such as "30m", too.

    Attributes:
        owner: What it is called in the store, and to others that want it; each life adds a random end of its own. By
            default it is the host's name and the id of the process that first uses the scheduler.
        retry: The policy of jobs that are set without one.
        horizon_s: How far ahead jobs are staged into memory.
        timeout_s: How long an attempt may take whose handler or target has no timeout of its own; None for no limit.
        history: What is kept of attempts that ended.
        staged_max: How many may be staged at once; the others wait in the store, whatever their instant. One handler
            or receiver takes at most three times what is free, and an eighth of it for jobs that are due already.
        workers: How many threads run sync handlers at most; they are started when there is something to run. While
            hung handlers hold them all, a handler that has waited half a second and of which nothing runs gets one
            more, up to 16 together; not with one worker. So it is with `coroutines`, `processes` and `running_max`.
        coroutines: How many async handlers and webhooks may be under way at once.
        processes: How many handlers of `executor="process"` run at once; their processes are started by need.
        leaked_max: How many attempts may run on past their timeouts and be replaced, threads and tasks each.
        running_max: How many firings may have been begun and not settled; it bounds what a crash has to rescue.
        batch_max: How many writes of callers make one commit at most, and how many of the scheduler's own.
        waiting_max: How many of the callers' writes may wait for a commit; further callers wait for room.
    """

    owner: str = field(default_factory=_ProcessName.now)
    retry: RetryPolicy = USUAL_RETRY
    horizon_s: Duration = 10.0
    timeout_s: Duration | None = 1800.0
    history: HistoryOptions = HistoryOptions()
    staged_max: int = 50_000
    workers: int = min(32, (os.cpu_count() or 1) + 4)
    coroutines: int = 1_000
    processes: int = ((os.cpu_count() or 1) * 4 + 2) // 3  # one handler gets three quarters: a processor each
    leaked_max: int = 64
    running_max: int = 10_000
    batch_max: int = 1_000
    waiting_max: int = 100_000

    def __post_init__(self) -> None:
        """
        Refuse what nothing can work with.

        Raises:
            InvalidJobError: Naming the option.
            TypeError: For a time that is none.
        """
        check_policy(self.retry)
        if not isinstance(self.owner, str) or not self.owner:
            raise InvalidJobError("owner", self.owner, "pass a name")
        checks.check_text("owner", self.owner, 512)
        if not isinstance(self.history, HistoryOptions):
            raise InvalidJobError("history", self.history, "pass HistoryOptions()")
        if not 0.2 <= checks.seconds("horizon_s", self.horizon_s) <= 3600:  # noqa: PLR2004  below, the arming window would not fit
            raise InvalidJobError("horizon_s", self.horizon_s, "pass seconds in 0.2..3600")
        timeout_s = checks.limit_s("timeout_s", self.timeout_s)
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidJobError("timeout_s", self.timeout_s, "pass seconds, more than 0, or None")
        for option in fields(self):
            if option.type == "int":
                _check_count(option.name, getattr(self, option.name))


def owner_name(options: SchedulerOptions) -> str:
    """
    Return what a scheduler of this process is called, without its random end; the child of a fork has another name.
    """
    return str(_ProcessName.now() if isinstance(options.owner, _ProcessName) else options.owner)


def share_of(places: int) -> int:
    """
    Return how many of *places* one handler may take: three quarters, so at least one fewer where there are two.
    """
    return max(1, places * 3 // 4)


def loan_of(places: int) -> int:
    """
    Return how many lanes of which nothing runs may have one place each beyond *places*; none where there is only one.
    """
    return 16 if places > 1 else 0
