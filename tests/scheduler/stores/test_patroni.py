"""
A store on two PostgreSQL servers of which Patroni makes one lead: whichever that is, jobs go on.
"""

from __future__ import annotations

import shutil

import pytest
from loads import loaded
from patroni_group import PatroniGroup
from processes import lent


@pytest.fixture
def make_group(make_postgres):  # noqa: ARG001 - skips where PostgreSQL or its driver is missing
    """
    Return what makes two servers of which the second has all that the first has answered.
    """
    for program in ("patroni", "etcd"):
        if not shutil.which(program):
            pytest.skip(f"Patroni with etcd is not installed: there is no {program}")
    yield from lent(PatroniGroup)


@pytest.mark.realtime
@pytest.mark.slow
def test_the_leader_is_switched_and_lost_under_load(make_group, until):
    """
    Nothing that was answered is lost, by a planned switchover and then by the death of the leader's machine.

    Nothing fires early, twice, or after its cancel; the one caller sees nothing but transient errors, and no more calls
    than it had under way are in doubt. All goes on automatically.
    """
    group = make_group()
    with loaded(f"{group.url}shards=4&lease_s=2", pause_s=0.01) as load:
        for change in (group.switch_over, group.lose_leader):
            load.await_more(load.fired, 30, until)
            change()
            load.await_more(load.jobs, 30, until)
        load.end(until)
        assert load.wrongs() == {}
    assert load.refused
    assert {error.is_transient for error in load.refused} == {True}
    assert len(load.doubted) <= 2
