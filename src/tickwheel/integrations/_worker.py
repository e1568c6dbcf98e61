from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tickwheel.scheduler import Scheduler
from tickwheel.typing import StartRole

__all__ = ["fire_until_stopped"]

_HOUR_S = 3600.0


def fire_until_stopped(scheduler: Scheduler, role: StartRole, say: Callable[[str], object]) -> None:
    """
    Start *scheduler* in the main thread, fire until SIGINT or SIGTERM, let handlers finish, and stop the scheduler.
    """
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        scheduler.start(role=role)
        what = "fires" if scheduler.is_started else "waits for the owner of"
        say(f"tickwheel {what} {scheduler.stats()['store']}, Ctrl-C stops it")
        while True:
            time.sleep(_HOUR_S)
    scheduler.stop()
    say("stopped")
