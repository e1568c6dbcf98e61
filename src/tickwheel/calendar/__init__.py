"""
Cron lines, dates and exclusions: the instants at which a series runs, and the policy for missed runs.
"""

from tickwheel.calendar._cron import Cron, DayMatch
from tickwheel.calendar._dates import Dates, Step, time_of
from tickwheel.calendar._exclusion import Exclusion
from tickwheel.calendar._zones import DstGap, DstOverlap
from tickwheel.calendar.misfire import Misfire

__all__ = ["Cron", "Dates", "DayMatch", "DstGap", "DstOverlap", "Exclusion", "Misfire", "Step", "time_of"]
