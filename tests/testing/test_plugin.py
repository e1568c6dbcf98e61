"""
The pytest plugin, which pytest has found by its entry point: no conftest here names it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_its_fixtures_are_on_one_clock(manual_clock, wheel, scheduler):
    """
    A wheel and a scheduler fire in one order as the clock moves.
    """
    seen = []
    scheduler.handler("note")(seen.append)
    scheduler.set("a", delay=7200, handler="note", payload="job")
    wheel.call_later(3600, seen.append, "timer")
    manual_clock.advance(7199)
    assert seen == ["timer"]
    manual_clock.advance(1)
    assert seen == ["timer", "job"]


class TestOwnFixture:
    """
    A fixture of the same name takes the place of the plugin's.
    """

    @pytest.fixture
    def wheel(self):
        """
        Return something else.
        """
        return "mine"

    def test_it_is_the_one(self, wheel):
        """
        The nearest one is taken.
        """
        assert wheel == "mine"


def test_it_loads_nothing_before_a_fixture_is_used():
    """
    What pytest imports in every project where tickwheel is installed are four small modules.
    """
    script = "import sys, tickwheel.testing.plugin; print(*(name for name in sys.modules if 'tickwheel' in name))"
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert set(answer.stdout.split()) == {
        "tickwheel",
        "tickwheel._later",
        "tickwheel.testing",
        "tickwheel.testing.plugin",
    }
