"""
When the wall clock of a zone shows what a cron line asks for, and what becomes of runs that were missed.

    _cron      a cron line: its text, its two dialects, its errors
    _fields    the wall-clock times a line matches; the one module that imports cronsim
    _zones     from wall clock to instants: the rules for gaps and overlaps
    _misfire   what becomes of runs whose instant passed
    _instant   an instant as a caller names it
"""

from tickwheel.calendar._cron import Cron
from tickwheel.calendar.misfire import Misfire

__all__ = ["Cron", "Misfire"]
