"""
A Celery application for a worker process.

The environment names the application's broker.
"""

from __future__ import annotations

import os

from celery import Celery

app = Celery("celery_worker", broker=os.environ["TICKWHEEL_BROKER"])
app.conf.worker_hijack_root_logger = False
app.conf.broker_connection_retry_on_startup = True


@app.task(name="tasks.note", bind=True)
def note(self, line):
    """
    Append the line and the task's id to the file of notes.
    """
    with open(os.environ["TICKWHEEL_NOTES"], "a") as notes:  # noqa: PTH123 one append is atomic
        notes.write(f"{line} {self.request.id}\n")
