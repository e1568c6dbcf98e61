"""
The instants at which the wall clock of a zone matches a cron line, and the policy for missed runs.

`_cron` parses a line, `_fields` finds the wall-clock times that it matches (only this module imports cronsim), and
`_zones` converts these times to instants. `_dates` has rules of every N days, weeks or months.
"""

from tickwheel.calendar._cron import Cron, DayMatch
from tickwheel.calendar._dates import Dates, Step, time_of
from tickwheel.calendar._exclusion import Exclusion
from tickwheel.calendar._zones import DstGap, DstOverlap
from tickwheel.calendar.misfire import Misfire

__all__ = ["Cron", "Dates", "DayMatch", "DstGap", "DstOverlap", "Exclusion", "Misfire", "Step", "time_of"]
