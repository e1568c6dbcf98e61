"""
A store on two PostgreSQL servers with Patroni: jobs run whichever server leads.
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
    Return a function that makes two servers. The second replicates synchronously from the first.
    """
    for program in ("patroni", "etcd"):
        if not shutil.which(program):
            pytest.skip(f"Patroni with etcd is not installed: there is no {program}")
    yield from lent(PatroniGroup)


@pytest.mark.realtime
@pytest.mark.slow
def test_the_leader_is_switched_and_lost_under_load(make_group, until):
    """
    A planned switchover, and then the death of the leader's machine, lose no acknowledged write.

    No job fires early, twice or after its cancel. The caller gets only transient errors, and only calls that were in
    flight have an unknown outcome. Everything recovers without an operator.
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
