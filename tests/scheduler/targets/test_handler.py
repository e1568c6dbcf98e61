"""
The registration of handlers by name, and the arguments that handlers take.
"""

from __future__ import annotations

import functools

import pytest

from tickwheel.integrations._handlers import Handlers
from tickwheel.scheduler import HandlerNotFoundError, InvalidJobError, RetryPolicy, Scheduler
from tickwheel.targets.handler import HandlerTarget


def one(payload):
    return payload


def two(payload, firing):
    return payload, firing


def named_second(payload, firing=None):
    """
    Take the payload and the firing.

    The firing is the second parameter and has a default.
    """
    return payload, firing


def other_default(payload, limit=5):
    """
    Take the payload.

    The second parameter has a default and is not the firing.
    """
    return payload, limit


def rest(*arguments):
    """
    Accept any arguments.
    """
    return arguments


class Called:
    """
    A callable object.
    """

    async def __call__(self, payload):
        """
        Take the payload.
        """


@pytest.mark.parametrize(
    ("function", "wants_firing"),
    [
        (one, False),
        (two, True),
        (named_second, True),
        (other_default, False),
        (rest, False),
        (functools.partial(two, firing=None), False),
        (Called(), False),
        ([].append, False),
        (set().add, False),
    ],
)
def test_arguments(function, wants_firing):
    """
    A handler gets the firing if it has a second required parameter, or a parameter named `firing`.
    """
    target = HandlerTarget(None)
    target.register("h", function)
    assert target.resolve("h").wants_firing is wants_firing


async def coroutine(payload):
    pass


@pytest.mark.parametrize(
    ("function", "is_async"), [(one, False), (coroutine, True), (Called(), True), (functools.partial(coroutine), True)]
)
def test_kinds(function, is_async):
    """
    Coroutine functions are recognised as async.

    So are callable objects whose `__call__` is a coroutine function, and partials of coroutine functions.
    """
    target = HandlerTarget(None)
    target.register("h", function)
    assert target.resolve("h").is_async is is_async


@pytest.mark.parametrize("function", [lambda: None, lambda a, b, c: None, lambda a, *, key: None])  # noqa: ARG005 shapes, not arguments
def test_wrong_arguments(function):
    """
    A function that takes no argument, or more than two, is refused when it is registered.
    """
    with pytest.raises(TypeError, match=r"let it take \(payload\) or \(payload, firing\)"):
        HandlerTarget(None).register("h", function)


def test_names():
    """
    A name can be registered once.

    The error for an unknown name says how to register it.
    """
    target = HandlerTarget(None)
    target.register("h", one, RetryPolicy(attempts=2))
    assert target.policy("h") == RetryPolicy(attempts=2)
    with pytest.raises(InvalidJobError, match="handler is 'h': there is one of that name"):
        target.register("h", two)
    with pytest.raises(InvalidJobError, match="name the handler"):
        target.register("", one)
    with pytest.raises(HandlerNotFoundError, match="no handler is named 'x'"):
        target.resolve("x")


@pytest.mark.parametrize("name", [1.5, b"x", None, "\ud800", "a\0b", "x" * 3000])
def test_names_that_no_job_can_have(name):
    """
    A name that no job can have is refused at registration.
    """
    with pytest.raises(InvalidJobError, match="handler is"):
        HandlerTarget(None).register(name, one)


def yields(payload):
    yield payload


async def yields_later(payload):
    yield payload


@pytest.mark.parametrize("function", [yields, yields_later])
def test_a_generator_is_refused_as_a_handler(function):
    """
    A generator function is refused as a handler, because its body would never run.
    """
    with pytest.raises(TypeError, match="handler 'h' is a generator, which nobody iterates: let it return"):
        HandlerTarget(None).register("h", function)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_bad_timeouts(timeout):
    """
    A timeout must be a positive number of seconds.
    """
    with pytest.raises(InvalidJobError, match="timeout is"):
        HandlerTarget(None).register("h", one, timeout_s=timeout)


def test_a_handler_without_a_name():
    """
    A callable without a name, such as a partial, is refused unless a name is given.
    """
    scheduler = Scheduler("memory://")
    scheduler.handler("named")(functools.partial(two, 1))
    assert scheduler.has_handler("named")
    with pytest.raises(InvalidJobError, match="no name of its own"):
        scheduler.handler()(functools.partial(two, 1))
    handlers = Handlers()
    with pytest.raises(InvalidJobError, match="no name of its own"):
        handlers.handler()(functools.partial(two, 1))
