"""
Where a fired job goes.

    handler    a function of this process
    log        a line on standard output
    pull       a queue that workers lease from
    webhook    an HTTP POST

The protocol of a target, and what one may answer, stand in `_contract`.
"""

from __future__ import annotations

from tickwheel.scheduler.targets._contract import Call, Cancel, End, Firing, Limits, Retry, Snooze, Target

__all__ = ["Call", "Cancel", "End", "Firing", "Limits", "Retry", "Snooze", "Target"]
