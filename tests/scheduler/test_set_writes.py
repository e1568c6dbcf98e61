"""
A batch of requests leads to the same writes as the same requests one by one.

Fields that all requests share are validated once.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import USUAL_RETRY, Actor, RetryPolicy
from tickwheel.jobs.requests import SetRequest, set_writes

NOW = 1_700_000_000_000
TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"

FIELDS = st.fixed_dictionaries(
    {"handler": st.sampled_from(["mail", "call"]), "payload": st.sampled_from([None, 1, {"a": [1]}])},
    optional={
        "target": st.sampled_from(["handler", "webhook"]),
        "retry": st.sampled_from([None, RetryPolicy(attempts=2)]),
        "expires": st.sampled_from([None, 5]),
        "mode": st.sampled_from(["replace", "keep"]),
        "if_generation": st.sampled_from([None, 0, 7]),
        "trace": st.sampled_from([None, TRACE]),
    },
)
TIMES = st.sampled_from(
    [
        {"delay": 0},
        {"delay": 1.5},
        {"at": 1_800_000_000},
        {"every": 60},
        {"every": 60, "at": 1_800_000_000},
        {"cron": "0 9 * * *", "max_runs": 3},
    ]
)


def writes_of(requests):
    return set_writes(
        requests, NOW, lambda *_: USUAL_RETRY, None, 3, latest=NOW + 9, is_estimate=True, actor=Actor("me")
    )


@settings(max_examples=50)
@given(st.lists(st.tuples(FIELDS, TIMES), max_size=6))
def test_a_batch_equals_its_requests(batch):
    """
    A batch of requests leads to the same writes as the same requests one by one.
    """
    requests = [SetRequest(str(number), **fields, **times) for number, (fields, times) in enumerate(batch)]
    assert writes_of(requests) == [write for request in requests for write in writes_of([request])]


def test_shared_fields_are_validated_once():
    """
    A batch of jobs for one handler looks up the handler's policy once.

    This holds even if the name of the handler is a different string object in each request.
    """
    asked = []

    def retry_of(target, handler):
        asked.append((target, handler))
        return USUAL_RETRY

    names = [b"mail".decode() for _ in range(3)]
    set_writes([SetRequest(str(n), delay=n, payload=n, handler=name) for n, name in enumerate(names)], NOW, retry_of)
    assert asked == [("handler", "mail")]


@pytest.mark.parametrize("wrong", [{"payload": 1, "keep_payload": True}, {"until": 5}, {"mode": "restart"}])
def test_a_later_wrong_request_is_refused(wrong):
    """
    If any request of a batch has a wrong field, the batch is refused.
    """
    with pytest.raises(InvalidJobError):
        writes_of([SetRequest("a", delay=1, handler="h"), SetRequest("b", delay=1, handler="h", **wrong)])
