"""
When a job comes back: intervals and cron lines, zones, missed runs, jitter.

    _recurrence   what a job stores, as canonical text, and the instant after this one
    _interval     every so many milliseconds, in a fixed phase
    _cron         a cron line: its text, its two dialects, its errors
    _calendar     the wall-clock times a line matches; the one module that imports cronsim
    _zones        from wall clock to instants: the rules for gaps and overlaps
"""

from tickwheel.scheduler.recurrence._cron import Cron
from tickwheel.scheduler.recurrence._interval import Interval
from tickwheel.scheduler.recurrence._recurrence import Misfire, Recurrence

__all__ = ["Cron", "Interval", "Misfire", "Recurrence"]
