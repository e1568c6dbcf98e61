"""
A function for an RQ worker process.
"""

from __future__ import annotations

import os

from rq import get_current_job


def note(line):
    """
    Append the line and the RQ job's id to the file of notes.
    """
    with open(os.environ["TICKWHEEL_NOTES"], "a") as notes:  # noqa: PTH123 one append is atomic
        notes.write(f"{line} {get_current_job().id}\n")
