"""
The model of the protocol is checked for every order of events.

`make prove` also checks that every execution ends.
"""

from __future__ import annotations

import shutil

import pytest
from protocol_model import FAULTS, check

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("cc")), reason="spin or a C compiler is not installed: run make servers"
)


def test_the_promise_holds_in_every_order():
    """
    The promise of tickwheel holds for every order of steps of two nodes and two jobs, with a restart and a pause.
    """
    found = check()
    assert found.broken == ""
    assert found.states > 1_000_000  # fewer states would mean that some event can no longer happen


@pytest.mark.parametrize("name", FAULTS)
def test_each_known_fault_is_found(name):
    """
    If a known fault is put back into the model, the check finds the fault, and shows the steps that lead to it.
    """
    found = check(FAULTS[name])
    assert found.broken
    assert "proc" in found.trail
