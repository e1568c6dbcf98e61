"""
The pytest plugin: fixtures with a clock that the test moves. pytest finds the plugin if tickwheel is installed.

The plugin imports the rest of tickwheel only when a test requests a fixture. A fixture in a `conftest.py` or a test
module takes precedence over a fixture of this plugin with that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tickwheel import TimerWheel
    from tickwheel.testing import AsyncInlineScheduler, InlineScheduler, ManualClock

__all__ = ["async_scheduler", "manual_clock", "scheduler", "wheel"]


@pytest.fixture
def manual_clock() -> ManualClock:
    """
    Return a `ManualClock`, which moves only by `advance`, `jump` or `jump_to_next`.
    """
    from tickwheel.testing import ManualClock  # noqa: PLC0415  other runs do not pay for the import

    return ManualClock()


@pytest.fixture
def wheel(manual_clock: ManualClock) -> Iterator[TimerWheel]:
    """
    Return a `TimerWheel` that fires as `manual_clock` moves. It is closed when the test ends.

    An AssertionError of a callback propagates from the call that moves the time; other errors are logged.
    """
    from tickwheel import TimerWheel  # noqa: PLC0415  other runs do not pay for the import

    made = TimerWheel(clock=manual_clock, on_error=_report)
    yield made
    made.close()


@pytest.fixture
def scheduler(manual_clock: ManualClock) -> Iterator[InlineScheduler]:
    """
    Return an `InlineScheduler`, which fires as `manual_clock` moves. It is stopped when the test ends.
    """
    from tickwheel.testing import InlineScheduler  # noqa: PLC0415  other runs do not pay for the import

    with InlineScheduler(manual_clock) as made:
        yield made


@pytest.fixture
def async_scheduler(manual_clock: ManualClock) -> Iterator[AsyncInlineScheduler]:
    """
    Return an `AsyncInlineScheduler`, which fires as `manual_clock` moves. It is stopped when the test ends.

    The fixture works without an event loop. `async` tests await the scheduler's methods, and other tests pass it to an
    application.
    """
    from tickwheel.testing import AsyncInlineScheduler  # noqa: PLC0415  other runs do not pay for the import

    with AsyncInlineScheduler(manual_clock) as made:
        yield made


def _report(error: BaseException, timer: object) -> None:
    from tickwheel.timers.log import log_error  # noqa: PLC0415  other runs do not pay for the import

    if isinstance(error, AssertionError):
        raise error
    log_error(error, timer)
