"""
A batch of due jobs gets the same permissions to run as its jobs would get one by one.
"""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.engine._lanes import Lanes
from tickwheel.engine._staged import StagedJobs
from tickwheel.host.lane_names import LaneNames
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.model import Job
from tickwheel.targets import DEFAULT, Limits

LIMITS = st.builds(
    lambda concurrency, places: Limits(concurrency=concurrency, places=None if places is None else lambda: places),
    st.sampled_from([DEFAULT, None, 1, 7]),
    st.sampled_from([None, 0, 3, 40]),
)


def lanes_of(limits, running_max):
    resources = mock.Mock()
    resources.runtime = Runtime()
    resources.options.running_max = running_max
    callback = mock.Mock()
    return Lanes(
        resources,
        lambda job: limits[job.handler],
        50,
        names=LaneNames(),
        begin=callback,
        sweep=callback,
        on_moving=callback,
    )


@settings(max_examples=150)
@given(
    st.fixed_dictionaries({"a": LIMITS, "b": LIMITS}),
    st.integers(1, 60),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 50)), max_size=5),
)
def test_a_batch_gets_the_places_of_its_jobs(limits, running_max, runs):
    """
    If a batch of due jobs asks for permission to run, the lanes admit the same jobs as if each job asked alone.
    """
    together, alone = lanes_of(limits, running_max), lanes_of(limits, running_max)
    for handler, count in runs:
        jobs = [Job(str(number), number, 0, handler=handler) for number in range(count)]
        taken = together.reserve(jobs)
        one_by_one = [lane for job in jobs for lane in alone.reserve([job])]
        assert [lane and lane.name for lane in taken] == [lane and lane.name for lane in one_by_one]
    for batch in ([Job("k", 1, 0, handler="a"), Job("l", 2, 0, handler="b"), Job("m", 3, 0, handler="a")],):
        one_by_one = [lane for job in batch for lane in alone.reserve([job])]
        assert [lane and lane.name for lane in together.reserve(batch)] == [lane and lane.name for lane in one_by_one]


@given(st.lists(st.text("abc", max_size=2)), st.lists(st.text("abc", max_size=2)))
def test_a_key_is_reserved_by_one_batch(keys, others):
    """
    If one batch has reserved a key, another batch cannot reserve it until the first reservation is cancelled.
    """
    table = StagedJobs(Runtime())
    assert all(table.reserve(keys))
    assert table.reserve(others) == [key not in keys for key in others]
    table.check()
    table.cancel([*keys, *others])
    table.check()
    assert table.busy == 0
    assert all(table.reserve(keys))
