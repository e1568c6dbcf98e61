"""
The line of the user's code that raised an error is found in the traceback.

The line is stored with the job and shown.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter

import pytest

from tickwheel.jobs.tracebacks import place_of
from tickwheel.scheduler import RetryPolicy, Scheduler

HERE = __name__


def pay(order):
    if order == "empty":
        raise KeyError(order)
    raise ValueError(order)


def in_a_library():
    json.loads("{")


def below_a_library():
    sorted([1], key=lambda _: pay("full"))


def in_a_group():
    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    async def fails():
        pay("full")

    asyncio.run(both())


def never_raised_inside():
    raise ExceptionGroup("all", [ValueError("never raised")])


def with_a_cause():
    try:
        pay("full")
    except ValueError as error:
        raise RuntimeError("no luck") from error


def typed_in():
    exec("\n\nraise ValueError")  # noqa: S102  a module of its own


def deep(depth=150):
    if depth:
        deeper(depth - 1)
    pay("full")


def deeper(depth):
    deep(depth)


def long_named():
    exec("def " + "f" * 500 + "(): raise ValueError\n" + "f" * 500 + "()")  # noqa: S102  a name of that length


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: pay("empty"), f"{HERE}.pay+2"),
        (lambda: pay("full"), f"{HERE}.pay+3"),
        (in_a_library, f"{HERE}.in_a_library+1"),
        (below_a_library, f"{HERE}.pay+3"),
        (in_a_group, f"{HERE}.pay+3"),
        (never_raised_inside, f"{HERE}.never_raised_inside+1"),
        (with_a_cause, f"{HERE}.with_a_cause+4"),
        (typed_in, f"{HERE}.<module>+2"),
        (deep, f"{HERE}.pay+3"),
        (long_named, f"{HERE}.{'f' * 500}"[:200]),
    ],
)
def test_place_of(function, expected):
    """
    The line that is stored for an error is the innermost line of the user's own code.

    Lines in tickwheel or in a library do not count.
    """
    with pytest.raises(Exception) as caught:  # noqa: PT011  any error
        function()
    assert place_of(caught.value) == expected


def test_the_users_package_may_be_installed(tmp_path, monkeypatch):
    """
    The package of the handler counts as the user's code even if the package is installed.

    Other installed packages count as libraries.
    """
    folder = tmp_path / "site-packages"
    for name, text in {
        "shop/__init__": "",
        "shop/handlers": "from shop.orders import pay",
        "shop/orders": "import bank\ndef pay():\n    bank.take()",
        "bank": "def take():\n    raise OSError",
    }.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(folder)
    try:
        from shop.handlers import pay as handler  # noqa: PLC0415  it has just been written

        with pytest.raises(OSError) as caught:  # noqa: PT011  it has no text
            handler()
        # without this test's own frame, so that the handler's frame is the first
        trace = caught.value.__traceback__.tb_next
        assert place_of(caught.value.with_traceback(trace)) == "shop.orders.pay+1"
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in {"shop", "bank"}]:
            del sys.modules[name]


def test_errors_that_cannot_be_read():
    """
    An error that was never raised has no line.

    An error whose attributes raise does no harm.
    """

    class HostileError(Exception):
        @property
        def remote_place(self):
            raise SystemExit

    assert place_of(ValueError("never raised")) is None
    assert place_of(HostileError()) is None


def test_incidents_by_line(tmp_path):
    """
    Errors with the same text from two lines are two incidents.

    An error that one line raises for many jobs is one incident.
    """
    died = Counter()
    with Scheduler(f"sqlite:///{tmp_path}/jobs.db") as scheduler:

        @scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=0, jitter=0))
        def handler(payload):
            error = LookupError(f"no order {payload}")
            if payload % 2:
                raise error
            raise error

        scheduler.subscribe(lambda event: died.update([type(event).__name__]))
        for number in range(6):
            scheduler.set(f"{number}", delay=0, handler="h", payload=number)
        while died["JobDied"] < 6:
            scheduler.stats()  # reads the store
        found = {each.raised_in: sorted(each.keys) for each in scheduler.incidents().incidents}
        name = f"{HERE}.test_incidents_by_line.<locals>.handler"
        assert found == {f"{name}+4": ["1", "3", "5"], f"{name}+5": ["0", "2", "4"]}
        assert {each.error for each in scheduler.incidents().incidents} == {"LookupError: no order …"}
    with Scheduler(f"sqlite:///{tmp_path}/jobs.db") as scheduler:
        assert {each.raised_in for each in scheduler.incidents().incidents} == set(found)
