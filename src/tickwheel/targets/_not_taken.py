"""
Postpones messages whose receiver cannot take them now, for example because it is full or unreachable.

The job waits for at most a day, or until it `expires`, and no attempt counts. After a day, each try is a failed
attempt. The start of the wait is stored with the job's error, so it survives a restart.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from tickwheel.jobs.errors import DeliveryError
from tickwheel.targets.contract import Firing, Snooze

__all__ = ["NotTakenError", "put_off", "waited_s"]

WAIT_MAX_S: Final = 86_400.0
"""Maximum time for which a job waits without counting attempts."""
_SINCE: Final = re.compile(r"waits since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ): ")


class NotTakenError(Exception):
    """
    The receiver cannot take the message now. *reason* says why; the message itself is valid.

    *is_up* is True if the receiver works, and None if its state is unknown, as after a broken connection. *is_full* is
    True if the receiver has no room for the messages of this handler. *after_s* is the wait that the receiver requests.
    """

    def __init__(
        self, reason: str, *, is_up: bool | None = None, is_full: bool = False, after_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason, self.is_up, self.is_full, self.after_s = reason, is_up, is_full, after_s


def waited_s(firing: Firing) -> float:
    since = _since(firing)
    return 0.0 if since is None else max(0.0, firing.fired_at / 1000 - since.timestamp())


def put_off(firing: Firing, wait_s: float, shown: str, reason: str) -> Snooze:
    if waited_s(firing) >= WAIT_MAX_S:
        raise DeliveryError(shown, f"it waited for a day: {reason}") from None
    since = _since(firing) or datetime.fromtimestamp(firing.fired_at / 1000, UTC)
    return Snooze(wait_s, f"waits since {since:%Y-%m-%dT%H:%M:%SZ}: {shown}: {reason}")


def _since(firing: Firing) -> datetime | None:
    found = _SINCE.match(firing.job.error or "")
    return None if found is None else datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
