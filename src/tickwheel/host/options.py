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
    __slots__ = ()

    @classmethod
    def now(cls) -> _ProcessName:
        return cls(f"{socket.gethostname()}:{os.getpid()}")


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or value < 1:
        raise InvalidJobError(name, value, "pass an integer, at least 1")


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """
    Options for the records of past attempts in the store.

    An invalid option raises an `InvalidJobError` that names it, or a TypeError for a time of the wrong type.

    Attributes:
        keep: The kinds of records. "usual": each attempt that failed, died or expired; each run and each act of
            recurring jobs (an act sets, moves, cancels, replays or pauses a job, and has an author); and each success
            whose handler noted something, such as a result. "failures": only attempts that failed, died or expired.
            "all": everything, with one row for each snooze and each run of a one-time job. "none": nothing.
        age_s: Maximum age of a record, in seconds, as a timedelta or text such as "7d"; by default 30 days.
        total: Maximum number of records in the store. Records beyond the limits are deleted once a minute; on SQLite
            once an hour if there are no new records.
    """

    keep: str = "usual"
    age_s: Duration = 2_592_000.0
    per_key: int = 100
    total: int = 50_000

    def __post_init__(self) -> None:
        if self.keep not in _KEPT:
            raise InvalidJobError("keep", self.keep, f"pass one of {', '.join(_KEPT)}")
        if not 0 < checks.seconds("age_s", self.age_s) <= checks.CENTURY_S:
            raise InvalidJobError("age_s", self.age_s, "pass seconds, more than 0, at most a century")
        for name in ("per_key", "total"):
            _check_count(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """
    The options of a scheduler: limits, horizon, and defaults for jobs and handlers.

    Seconds may also be a timedelta or text such as "30m". An invalid option raises an `InvalidJobError` that names it,
    or a TypeError for a time of the wrong type.

    Attributes:
        owner: Name of this process in the store and for other nodes; each start appends a random suffix. The default is
            the host's name and the id of the process that first uses the scheduler.
        retry: The policy of jobs that are set without one.
        horizon_s: Time before the due time at which jobs are staged (loaded into memory).
        timeout_s: Timeout of an attempt whose handler or target has no timeout; None for no limit.
        staged_max: Maximum number of staged jobs; other jobs wait in the store. One handler or receiver takes at most
            three times as many places as are free. Its jobs that are already due take at most an eighth of all places.
        workers: Maximum number of threads for sync handlers; they start on demand. If hung handlers hold all threads, a
            handler that has waited half a second and has no running attempt gets one of up to 16 extra threads. This
            does not apply if the limit is 1. The same rule applies to `coroutines`, `processes` and `running_max`.
        coroutines: Maximum number of async handlers and webhooks that run at once.
        processes: Maximum number of handlers with `executor="process"` that run at once; processes start on demand.
        leaked_max: Maximum number of threads, and of tasks, that run past their timeouts and are replaced.
        running_max: Maximum number of firings that are claimed and not yet settled (acknowledged). It limits the work
            of a recovery.
        batch_max: Maximum number of callers' writes per commit, and also of the scheduler's own writes per commit.
        waiting_max: Maximum number of callers' writes that wait for a commit. Further callers wait until there is room.
    """

    owner: str = field(default_factory=_ProcessName.now)
    retry: RetryPolicy = USUAL_RETRY
    horizon_s: Duration = 10.0
    timeout_s: Duration | None = 1800.0
    history: HistoryOptions = HistoryOptions()
    staged_max: int = 50_000
    workers: int = min(32, (os.cpu_count() or 1) + 4)
    coroutines: int = 1_000
    processes: int = ((os.cpu_count() or 1) * 4 + 2) // 3  # one handler gets three quarters: one for each processor
    leaked_max: int = 64
    running_max: int = 10_000
    batch_max: int = 1_000
    waiting_max: int = 100_000

    def __post_init__(self) -> None:
        check_policy(self.retry)
        if not isinstance(self.owner, str) or not self.owner:
            raise InvalidJobError("owner", self.owner, "pass a name")
        checks.check_text("owner", self.owner, 512)
        if not isinstance(self.history, HistoryOptions):
            raise InvalidJobError("history", self.history, "pass HistoryOptions()")
        if not 0.2 <= checks.seconds("horizon_s", self.horizon_s) <= 3600:  # noqa: PLR2004  below 0.2 s, the arming window would not fit
            raise InvalidJobError("horizon_s", self.horizon_s, "pass seconds in 0.2..3600")
        timeout_s = checks.limit_s("timeout_s", self.timeout_s)
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidJobError("timeout_s", self.timeout_s, "pass seconds, more than 0, or None")
        for option in fields(self):
            if option.type == "int":
                _check_count(option.name, getattr(self, option.name))


def owner_name(options: SchedulerOptions) -> str:
    return str(_ProcessName.now() if isinstance(options.owner, _ProcessName) else options.owner)


def share_of(places: int) -> int:
    return max(1, places * 3 // 4)


def loan_of(places: int) -> int:
    """
    Return the number of lanes without running jobs that may each get one place beyond *places*; 0 if *places* is 1.
    """
    return 16 if places > 1 else 0
