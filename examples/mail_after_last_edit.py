"""
Send one mail a quarter of an hour after the last of many edits, but at most an hour after the first one.

    python examples/mail_after_last_edit.py [SECONDS [STORE]]

SECONDS replaces the quarter of an hour. Every edit sets a job with the same key, which moves the pending job: this is a
debounce. If the edits never stop, `max_wait` makes the job fire. If STORE is a database, such as sqlite:///edits.db,
the job survives a restart.
"""

from __future__ import annotations

import sys
import threading
import time

from tickwheel.scheduler import Scheduler

A_QUARTER = 900.0


def main(seconds: str = str(A_QUARTER), store: str = "memory://") -> None:
    """
    Edit a page five times, and wait for the single mail.
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
            time.sleep(patience_s / 10)  # the user writes the next edit
        mailed.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
