"""
Send one mail a quarter of an hour after the last edit, however many edits there were, and at the latest after an hour.

    python examples/mail_after_last_edit.py [SECONDS [STORE]]

SECONDS replaces the quarter of an hour. Every edit sets the same key again, which moves the job: a debounce that
survives a restart. `max_wait` ends it for those who never stop typing.
"""

from __future__ import annotations

import sys
import threading
import time

from tickwheel.scheduler import Scheduler

A_QUARTER = 900.0


def main(seconds: str = str(A_QUARTER), store: str = "memory://") -> None:
    """
    Edit a page five times, and wait for the one mail.
    """
    patience_s = float(seconds)
    mailed = threading.Event()

    with Scheduler(store) as scheduler:

        @scheduler.task(name="mail-edits")
        def mail_edits(title: str, edits: int) -> None:
            print(f"mail: {title} was edited {edits} times")
            mailed.set()

        for edits in range(1, 6):
            call = mail_edits.of("The wheel", edits)
            scheduler.set("edited/the-wheel", call, delay=patience_s, max_wait=4 * patience_s)
            time.sleep(patience_s / 10)  # somebody writes
        mailed.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
