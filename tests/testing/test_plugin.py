"""
The pytest plugin, which pytest loads by its entry point, without a conftest.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_its_fixtures_are_on_one_clock(manual_clock, wheel, scheduler):
    """
    The timers of a wheel and the jobs of a scheduler fire in one common order when the clock moves.
    """
    seen = []
    scheduler.handler("note")(seen.append)
    scheduler.set("a", delay=7200, handler="note", payload="job")
    wheel.call_later(3600, seen.append, "timer")
    manual_clock.advance(7199)
    assert seen == ["timer"]
    manual_clock.advance(1)
    assert seen == ["timer", "job"]


def test_an_assertion_error_of_a_callback_reaches_the_test(manual_clock, wheel, caplog):
    """
    If a callback raises an AssertionError, the call that moves the time raises it. Other errors are logged.

    All other timers fire.
    """
    seen = []

    def check():
        assert seen == ["nothing"]

    for callback, argument in ((seen.append, "before"), ([].remove, 1), (seen.append, "after")):
        wheel.call_later(60, callback, argument)
    wheel.call_later(60, check)
    wheel.call_later(60, seen.append, "last")
    with pytest.raises(AssertionError):
        manual_clock.advance(60)
    assert [record.exc_info[0] for record in caplog.records] == [ValueError]
    manual_clock.advance(0)
    assert seen == ["before", "after", "last"]


class TestOwnFixture:
    """
    A user's fixture replaces the plugin's fixture with the same name.
    """

    @pytest.fixture
    def wheel(self):
        return "mine"

    def test_the_nearest_fixture_is_used(self, wheel):
        """
        The fixture that is nearest to the test is used.
        """
        assert wheel == "mine"


def test_it_loads_nothing_before_a_fixture_is_used():
    """
    In a project with tickwheel installed, pytest imports only four small modules of tickwheel.
    """
    script = "import sys, tickwheel.testing.plugin; print(*(name for name in sys.modules if 'tickwheel' in name))"
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert set(answer.stdout.split()) == {
        "tickwheel",
        "tickwheel._later",
        "tickwheel.testing",
        "tickwheel.testing.plugin",
    }
