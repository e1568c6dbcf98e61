"""
An argument has the same meaning for a scheduler that uses a service and for a scheduler that opens a store itself.
"""

from __future__ import annotations

import contextlib
import enum
import math
from datetime import date

import pytest

from tickwheel.errors import TickwheelError
from tickwheel.scheduler import Answer, InvalidJobError, Outcome, Scheduler, SetRequest

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

FAR = 10**400


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


class Name(str, enum.Enum):  # noqa: UP042  many programs have such ones
    """
    An enumeration of strings, as programs defined it before `StrEnum` existed.
    """

    KEY = "same/as text"


@pytest.fixture(scope="module")
def own():
    with contextlib.closing(Scheduler("memory://")) as scheduler:
        yield scheduler


def outcome_of(scheduler, verb, *arguments, **fields):
    """
    Set a job, call *verb*, and return the outcome of the call or its error, without generations.
    """
    scheduler.set("same/as text", every=3600, target="log", payload=1)
    try:
        answer = getattr(scheduler, verb)(*arguments, **fields)
    except (TickwheelError, TypeError) as error:
        return type(error), str(error)
    finally:
        scheduler.drain("same/")
    if hasattr(answer, "outcome"):
        return answer.outcome
    return [job.key for job in answer.jobs] if hasattr(answer, "jobs") else answer.matched


@pytest.mark.parametrize(
    ("verb", "key", "fields"),
    [
        ("set", "same/past", {"delay": -math.inf, "target": "pull", "handler": "nobody"}),
        ("set", "same/past", {"at": -FAR, "target": "pull", "handler": "nobody"}),
        ("set", "same/never", {"delay": math.inf, "target": "log"}),
        ("set", "same/deep", {"delay": 60, "target": "log", "payload": nested(100)}),
        ("set", "same/deep", {"delay": 60, "target": "log", "payload": nested(101)}),
        ("change", "same/as text", {"payload": nested(100)}),
        ("move", "same/none", {"delay": -math.inf}),
        ("move", "same/none", {"at": -math.inf}),
        ("bulk", "cancel", {"prefix": "same/", "due_until": -math.inf}),
        ("list", "same/", {"due_from": -math.inf}),
        ("list", Name.KEY, {"contains": Name.KEY, "target": "log"}),
        ("change", "same/as text", {"expires": math.inf}),
        ("change", "same/as text", {"every": -math.inf}),
        ("change", "same/as text", {"jitter": math.inf}),
        ("change", "same/as text", {"misfire": "skip", "misfire_grace": 0}),
        ("change", "same/as text", {"until": math.inf}),
        ("change", "same/as text", {"exclude": None}),
        ("change", "same/as text", {"exclude": "2030-01-01"}),
        ("change", "same/as text", {"exclude": ["tomorrow"]}),
        ("change", "same/as text", {"exclude": [date(2030, 1, 1)]}),
    ],
)
def test_a_value(client, own, verb, key, fields):
    """
    The service accepts and refuses the same values as a store, with the same errors.
    """
    assert outcome_of(client, verb, key, **fields) == outcome_of(own, verb, key, **fields)


def test_a_deep_payload_of_a_batch(client):
    """
    A batch accepts a payload with the maximum nesting depth.

    If a payload is nested deeper, the error names the position of its item.
    """
    (answer,) = client.set_many([SetRequest("same/deep", delay=60, target="log", payload=nested(100))])
    assert answer.job.payload == b"[" * 100 + b"]" * 100
    assert client.get("same/deep") == answer.job
    with pytest.raises(InvalidJobError, match="it is nested too deeply: the limit is 100 levels"):
        client.set_many([SetRequest("same/deep", delay=60, target="log", payload=nested(101))])
    client.cancel("same/deep")


def test_a_wait_below_zero(client):
    """
    If a worker asks for jobs with a negative waiting time, it gets an answer at once.
    """
    assert list(client.lease("nobody's", wait=-math.inf)) == []
    assert list(client.lease("nobody's", wait=-1)) == []


def test_the_answer_has_a_job_that_is_not_changed(client, own):
    """
    If a job that is not dead is replayed, the outcome is "not found", and the answer contains the job.
    """
    for scheduler in (client, own):
        set_ = scheduler.set("same/alive", delay=3600, target="log")
        assert scheduler.replay("same/alive") == Answer(Outcome.NOT_FOUND, set_.job)
        assert scheduler.replay_many(["same/alive", "same/none"]) == [
            Answer(Outcome.NOT_FOUND, set_.job),
            Answer(Outcome.NOT_FOUND, None),
        ]
        scheduler.cancel("same/alive")


def test_a_dead_job_cannot_be_moved(client):
    """
    If a dead job is moved, the answer contains the job unchanged, and the problem document says that the job is dead.
    """
    client.set("same/dead", delay=0, target="pull", handler="dies")
    (lease,) = client.lease("dies")
    client.nack(lease.fire_id, is_dead=True)
    answer = client.move("same/dead", delay=60)
    assert (answer.outcome, answer.job) == (Outcome.NOT_FOUND, client.get("same/dead"))
    assert client.cancel("same/dead").outcome is Outcome.CANCELLED
