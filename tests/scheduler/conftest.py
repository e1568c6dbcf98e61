"""
Fixtures of the scheduler's tests: stores of every kind, schedulers that the fixtures stop, and a record to wait on.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from engines import noted_engines

from tickwheel.jobs.errors import StoreError
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.testing import ManualClock

PATIENCE_S = 60.0
"""
Maximum number of seconds that a test waits for an immediate event.

Only a failing test waits that long.
"""


class Record:
    """
    A list that other threads fill and on which a test waits.

    Each wait also advances the manual clocks by 0. This fires a job whose due time passed while it was being staged.
    """

    def __init__(self, clocks=()):
        self.items = []
        self._clocks = clocks
        self._grown = threading.Condition()

    def __call__(self, item):
        """
        Append *item*. A record can therefore be a handler or a hook.
        """
        with self._grown:
            self.items.append(item)
            self._grown.notify_all()

    def wait(self, count):
        """
        Wait until there are *count* items, and return the first *count* items.
        """
        return self.wait_for(lambda: len(self.items) >= count)[:count]

    def wait_for(self, enough):
        """
        Wait until `enough()` is true, and return a copy of the items.
        """
        give_up = time.monotonic() + PATIENCE_S
        while True:
            with self._grown:
                if self._grown.wait_for(enough, 0.02 if self._clocks else PATIENCE_S):
                    return list(self.items)
            assert time.monotonic() < give_up, f"waited {PATIENCE_S} s, and there is {self.items}"
            for clock in self._clocks:
                clock.advance(0)

    def of(self, kind, key=None):
        """
        Wait for an item of *kind* (and of *key*, if given), and return all such items.
        """

        def chosen(items):
            return [item for item in items if isinstance(item, kind) and (key is None or item.key == key)]

        return chosen(self.wait_for(lambda: chosen(self.items)))


@pytest.fixture
def go_on():
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def clocks():
    """
    Return the manual clocks of the schedulers that `make` has made.
    """
    return []


@pytest.fixture
def record(clocks):
    return Record(clocks)


@pytest.fixture
def until(clocks):
    """
    Return a function that calls its argument until the result is true, and returns that result.

    Use it for events without a signal: the end of a thread or process, or a change on a server or another node.
    Transient errors are ignored.
    """

    def ask(call, explain=str):
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up:
            try:
                if answer := call():
                    return answer
            except StoreError as error:
                if not error.is_transient:
                    raise
            time.sleep(0.002)
            for clock in clocks:
                clock.advance(0)
        return pytest.fail(f"nothing came within {PATIENCE_S} s {explain()}")

    return ask


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


@contextmanager
def served():
    """
    Serve an empty store and yield the address.

    The service fires no jobs.
    """
    pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")
    import uvicorn  # noqa: PLC0415  an extra

    from tickwheel.service import Service, ServiceOptions  # noqa: PLC0415  its libraries are an extra

    scheduler = AsyncScheduler("memory://")
    for name in ("h", "other"):
        scheduler.handler(name)(print)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(Service(scheduler, ServiceOptions(every_min_s=0.001)), log_config=None, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        asyncio.run(scheduler.stop())


@pytest.fixture
def service_url():
    """
    Return the address of a service over an empty store.

    The service fires no jobs.
    """
    with served() as url:
        yield url


@pytest.fixture(scope="module")
def lasting_service_url():
    """
    Return the address of a service for tests that store nothing.

    All these tests of a module share the service.
    """
    with served() as url:
        yield url


@pytest.fixture
def file_url(tmp_path):
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def make(clocks):
    """
    Return a function that makes schedulers, which are stopped when the test ends.
    """
    made = []

    def make_one(*args, kind=Scheduler, **kwargs):
        if isinstance(clock := kwargs.get("clock"), ManualClock):
            clocks.append(clock)
        made.append(kind(*args, **kwargs))
        return made[-1]

    yield make_one
    for scheduler in made:
        scheduler.stop(timeout=5.0)


@pytest.fixture
def engines():
    """
    Return a list to which every engine that starts during the test is appended.
    """
    with noted_engines() as noted:
        yield noted


@pytest.fixture
def events(clocks):
    """
    Return a function that subscribes a new record to the events of a scheduler, and returns the record.
    """

    def subscribe(scheduler):
        told = Record(clocks)
        scheduler.subscribe(told)
        return told

    return subscribe
