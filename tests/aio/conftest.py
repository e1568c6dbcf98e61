"""
Loops for the tests: our loop on a clock that the test moves, and every kind of loop on which our timeouts run.
"""

from __future__ import annotations

import asyncio
import random
from importlib import import_module

import pytest

from tickwheel.aio import EventLoop


class StillLoop(EventLoop):
    """
    A loop whose time moves only when a test moves it.
    """

    def __init__(self):
        super().__init__()
        self.now = random.Random().uniform(0, 1e6)

    def time(self):
        return self.now

    def turn(self):
        self.call_soon(self.stop)
        self.run_forever()

    def move(self, seconds):
        self.now += seconds
        self.turn()


@pytest.fixture
def loop():
    made = EventLoop()
    yield made
    made.close()


@pytest.fixture
def still():
    made = StillLoop()
    yield made
    made.close()


@pytest.fixture(params=["tickwheel", "asyncio", "uvloop"])
def runner(request):
    """
    Provide a runner for each kind of loop, except rloop's loop, which leaves a socket open.
    """
    factories = {"tickwheel": EventLoop, "asyncio": asyncio.SelectorEventLoop}
    if request.param not in factories:
        factories[request.param] = pytest.importorskip(request.param).new_event_loop
    with asyncio.Runner(loop_factory=factories[request.param]) as made:
        yield made


@pytest.fixture(scope="session")
def suites():
    """
    Return the test suites of CPython's asyncio, if this Python installation has them.
    """
    try:
        return import_module("test.test_asyncio.test_timeouts").__package__
    except ImportError:
        pytest.skip("this Python does not ship its own tests (Lib/test)")
