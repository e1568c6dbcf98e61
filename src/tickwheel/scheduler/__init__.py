"""
The durable scheduler: keyed jobs that survive a crash.

ARCHITECTURE.md follows a job through the packages below: `jobs`, `stores`, `targets`, `host`, `engine`, `client` and
`remote`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._later import later
from tickwheel.host.options import HistoryOptions, SchedulerOptions
from tickwheel.jobs.bulk import BulkAnswer, BulkChange
from tickwheel.jobs.declaration import Declared, DeclaredJob, Schedule
from tickwheel.jobs.errors import (
    AccessError,
    HandlerNotFoundError,
    InvalidJobError,
    InvalidRecurrenceError,
    JobStoppedError,
    LeaseEndedError,
    RecurrenceError,
    StoreError,
    StoreFormatError,
    StoreFullError,
    StoreInUseError,
    TooManyWaitingError,
    TransactionError,
    UnsupportedError,
)
from tickwheel.jobs.explanation import Explanation, LaneState, WaitReason
from tickwheel.jobs.incidents import Incident, Incidents
from tickwheel.jobs.minutes import LaneMinute, Minute
from tickwheel.jobs.model import (
    Answer,
    HistoryRecord,
    Job,
    JobQuery,
    Outcome,
    Page,
    Progress,
    RetryPolicy,
    SetAnswer,
    SetMode,
    State,
)
from tickwheel.jobs.recurrence import Misfire, Overlap, Recurrence
from tickwheel.jobs.requests import SetRequest
from tickwheel.scheduler._scheduler import Scheduler
from tickwheel.scheduler.backfill import Backfill
from tickwheel.scheduler.tasks import Task, TaskCall, task
from tickwheel.stores import Node, Shard
from tickwheel.targets import DEFAULT, DeadLetter, Firing, Retry, Snooze, Target
from tickwheel.targets.pull import JobLease

if TYPE_CHECKING:
    from tickwheel.scheduler._async import AsyncScheduler
else:  # it imports asyncio, which programs with threads need not pay for
    __getattr__, __dir__ = later(__name__, {"tickwheel.scheduler._async": ("AsyncScheduler",)})

__all__ = [
    "DEFAULT",
    "AccessError",
    "Answer",
    "AsyncScheduler",
    "Backfill",
    "BulkAnswer",
    "BulkChange",
    "DeadLetter",
    "Declared",
    "DeclaredJob",
    "Explanation",
    "Firing",
    "HandlerNotFoundError",
    "HistoryOptions",
    "HistoryRecord",
    "Incident",
    "Incidents",
    "InvalidJobError",
    "InvalidRecurrenceError",
    "Job",
    "JobLease",
    "JobQuery",
    "JobStoppedError",
    "LaneMinute",
    "LaneState",
    "LeaseEndedError",
    "Minute",
    "Misfire",
    "Node",
    "Outcome",
    "Overlap",
    "Page",
    "Progress",
    "Recurrence",
    "RecurrenceError",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "Scheduler",
    "SchedulerOptions",
    "SetAnswer",
    "SetMode",
    "SetRequest",
    "Shard",
    "Snooze",
    "State",
    "StoreError",
    "StoreFormatError",
    "StoreFullError",
    "StoreInUseError",
    "Target",
    "Task",
    "TaskCall",
    "TooManyWaitingError",
    "TransactionError",
    "UnsupportedError",
    "WaitReason",
    "task",
]
