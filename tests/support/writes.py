"""
Short forms of writes, for tests of stores and of the writer.
"""

from __future__ import annotations

from tickwheel.jobs.model import Job, Set


def a_set(key="key", due_at=0, payload=b"null"):
    return Set(Job(key, 0, due_at, payload))


def set_one(store, *what, **more):
    """
    Set a job, and return it.
    """
    return store.apply([a_set(*what, **more)])[0].job


def outcomes(answers):
    return [answer.outcome for answer in answers]
