"""
The durable scheduler: jobs by key that survive a crash.

The life of a job, room by room:

    _scheduler   the verbs, for threads; _async has them for asyncio
    _client      opens the store and asks the writer
    _requests    what was asked for, checked (_checks, _retry, recurrence) and made a write
    _writer      commits it, with whatever else has gathered
    stores       where it waits
    _stager      brings it near as its instant comes into sight; a job set for soon comes straight from its commit
    _near        the table of what is near: which state a job is in, and what may follow
    _armer       counts the attempt just before the instant, unless its lane (_lanes) is full, and sets the timer
    _executor    hands it to its target (_registry, targets), on a worker thread (_workers) or the loop (_coroutines)
    _verdict     what the target's answer means: done, again, dead; and when next
    _settler     writes that down

Beside them: _owner puts the roles together, _leases holds the right to fire, _watcher notices what others write,
_lifecycle has the rules of start and stop, _core is what both faces stand on; remote is what they stand on where a
service fires the jobs.
"""

from __future__ import annotations

from tickwheel.scheduler._async import AsyncScheduler
from tickwheel.scheduler._model import Answer, Job, JobQuery, Outcome, Page, RetryPolicy, SetMode, State
from tickwheel.scheduler._options import SchedulerOptions
from tickwheel.scheduler._requests import SetRequest
from tickwheel.scheduler._scheduler import Scheduler
from tickwheel.scheduler.errors import (
    AccessError,
    GenerationMismatchError,
    HandlerNotFoundError,
    InvalidJobError,
    JobNotFoundError,
    LeaseEndedError,
    RecurrenceError,
    StoreError,
    StoreFormatError,
    StoreInUseError,
    TooManyWaitingError,
    TransactionError,
    UnsupportedError,
)
from tickwheel.scheduler.recurrence import Misfire, Recurrence
from tickwheel.scheduler.stores import Shard
from tickwheel.scheduler.targets import Cancel, Firing, Retry, Snooze, Target
from tickwheel.scheduler.targets.pull import JobLease

__all__ = [
    "AccessError",
    "Answer",
    "AsyncScheduler",
    "Cancel",
    "Firing",
    "GenerationMismatchError",
    "HandlerNotFoundError",
    "InvalidJobError",
    "Job",
    "JobLease",
    "JobNotFoundError",
    "JobQuery",
    "LeaseEndedError",
    "Misfire",
    "Outcome",
    "Page",
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
    "StoreInUseError",
    "Target",
    "TooManyWaitingError",
    "TransactionError",
    "UnsupportedError",
]
