"""
The instants at which the wall clock of a zone matches a cron line, and the policy for missed runs.

    _cron      a cron line: its text, its two dialects, its errors
    _fields    the wall-clock times that a line matches; only this module imports cronsim
    _days      days of the month that cronsim does not know: `15W`, `L-3`
    _ranges    ranges that run past the end of their field: `FRI-MON`
    _dates     every N days, weeks or months at a time of day
    _zones     converts wall-clock times to instants: the rules for gaps and overlaps
    _exclusion days, or matches of a second line, that a series leaves out
    misfire    the policy for missed runs
    zone       a caller's zone
    instant    a caller's instant
    duration   a length of time as text
"""

from tickwheel.calendar._cron import Cron, DayMatch
from tickwheel.calendar._dates import Dates, Step, time_of
from tickwheel.calendar._exclusion import Exclusion
from tickwheel.calendar._zones import DstGap, DstOverlap
from tickwheel.calendar.misfire import Misfire

__all__ = ["Cron", "Dates", "DayMatch", "DstGap", "DstOverlap", "Exclusion", "Misfire", "Step", "time_of"]
