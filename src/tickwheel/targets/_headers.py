"""
The headers that describe a firing, with the same names for every target.

    header                value
    tickwheel-key         the job's key, percent-encoded
    tickwheel-fire-id     key/generation/attempt, percent-encoded
    tickwheel-attempt     the number of the attempt, from 1
    tickwheel-due-at      the due time, in ms since the epoch
    tickwheel-nominal-at  the nominal instant of a recurring job's run, the same for all attempts
    traceparent           the traceparent of the firing's span, or of the span that set the job
"""

from __future__ import annotations

from urllib.parse import quote

from tickwheel.targets.contract import Firing

__all__ = ["headers"]


def headers(firing: Firing) -> dict[str, str]:
    job = firing.job
    found = {
        "tickwheel-key": quote(job.key),
        "tickwheel-fire-id": quote(firing.fire_id),
        "tickwheel-attempt": str(firing.attempt),
        "tickwheel-due-at": str(job.due_at),
    }
    if (nominal_at := firing.nominal_at) is not None:
        found["tickwheel-nominal-at"] = str(nominal_at)
    if firing.trace is not None:
        found["traceparent"] = firing.trace
    return found
