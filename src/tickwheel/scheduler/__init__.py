"""
The durable scheduler: jobs by key that survive a crash.

    model, errors    what a store, a target or an observer of your own needs
    verbs/           what callers ask: the faces, requests and their checks, the client, the group-committing writer
    engine/          what fires: owner, leases, stager, staged jobs, armer, lanes, queues, dispatcher, verdict, settler
    stores/          where jobs wait; each knows the model and its contract, never the engine
    targets/         where a fired job goes; as the stores
    recurrence       when a job is due again
    remote/          the same verbs over HTTP

`_core` is what both faces are built on: a client, and an owner while it is started. ARCHITECTURE.md follows a job
through these rooms in order.
"""

from __future__ import annotations

from tickwheel.scheduler._options import HistoryOptions, SchedulerOptions
from tickwheel.scheduler.errors import (
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
from tickwheel.scheduler.incidents import Incident, Incidents
from tickwheel.scheduler.model import (
    Answer,
    HistoryRecord,
    Job,
    JobQuery,
    Outcome,
    Page,
    Progress,
    RetryPolicy,
    SetMode,
    State,
)
from tickwheel.scheduler.recurrence import Misfire, Overlap, Recurrence
from tickwheel.scheduler.stores import Node, Shard
from tickwheel.scheduler.targets import USUAL, DeadLetter, Firing, Retry, Snooze, Target
from tickwheel.scheduler.targets.pull import JobLease
from tickwheel.scheduler.verbs._async import AsyncScheduler
from tickwheel.scheduler.verbs._scheduler import Scheduler
from tickwheel.scheduler.verbs.backfill import Backfill
from tickwheel.scheduler.verbs.bulk import BulkAnswer
from tickwheel.scheduler.verbs.requests import SetRequest

__all__ = [
    "USUAL",
    "AccessError",
    "Answer",
    "AsyncScheduler",
    "Backfill",
    "BulkAnswer",
    "DeadLetter",
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
    "LeaseEndedError",
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
    "Scheduler",
    "SchedulerOptions",
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
    "TooManyWaitingError",
    "TransactionError",
    "UnsupportedError",
]
