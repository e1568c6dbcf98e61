"""
Recurrence: intervals and cron lines, missed runs, jitter.

    _recurrence   what a job stores, as canonical text, and the instant after this one
    _interval     every so many milliseconds, in a fixed phase
    _overlap      what follows a run that is not over when the next one is due

Cron lines and zones are in `tickwheel.calendar`.
"""

from tickwheel.calendar import Cron, Exclusion, Misfire
from tickwheel.scheduler.recurrence._interval import Interval
from tickwheel.scheduler.recurrence._overlap import Overlap
from tickwheel.scheduler.recurrence._recurrence import Recurrence, share_of

__all__ = ["Cron", "Exclusion", "Interval", "Misfire", "Overlap", "Recurrence", "share_of"]
