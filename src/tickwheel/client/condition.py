"""
Conditional writes: concurrent callers never overwrite each other's changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwheel.jobs import checks
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Answer, Job, Outcome, State

__all__ = ["on_what_is_read"]

_TRIES: Final = 20


def on_what_is_read(
    get: Callable[[str], Job | None], key: str, if_generation: int | None, write: Callable[[Job], Answer]
) -> Answer:
    """
    Read the live job of *key* and call *write*. Repeat both steps if another write came in between. Blocks.
    """
    wanted = checks.check_generation(if_generation)
    for _ in range(_TRIES):
        job = get(key)
        if job is None or job.state is State.DEAD:
            return Answer(Outcome.NOT_FOUND, job)
        if wanted not in {None, job.generation}:
            return Answer(Outcome.WRONG_GENERATION, job)
        answer = write(job)
        if answer.outcome is not Outcome.WRONG_GENERATION:
            return answer
    what = f"the job {key!r} was changed by others {_TRIES} times"
    raise StoreError(what, "try again", is_transient=True)
