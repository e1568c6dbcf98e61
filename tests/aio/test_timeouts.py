"""
Timeouts, on every kind of loop.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import threading
import weakref
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest

from tickwheel import aio
from tickwheel.errors import InvalidDelayError


async def forever():
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("delay", [0.01, 0, -1, 0.0])
def test_a_body_that_takes_too_long_is_cancelled(runner, delay):
    """
    A body that runs beyond its deadline is cancelled and raises TimeoutError.

    The deadline may be in the future, now or in the past.
    """

    async def main():
        with pytest.raises(TimeoutError) as caught:
            async with aio.timeout(delay) as timeout:
                await forever()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert timeout.expired()
        assert repr(timeout) == "<Timeout [expired]>"
        assert asyncio.current_task().cancelling() == 0

    runner.run(main())


def test_a_body_in_time_is_not_touched(runner):
    """
    A body that ends in time is not affected, and leaves no timeout behind.
    """

    async def main():
        for _ in range(100):
            async with aio.timeout(3600) as timeout:
                await asyncio.sleep(0)
            assert not timeout.expired()
        async with aio.timeout(None) as timeout:
            assert timeout.when() is None
        assert len(asyncio.get_running_loop()._tickwheel_deadlines) == 0

    runner.run(main())


def test_the_inner_of_two_expires_alone(runner):
    """
    An inner timeout that expires does not end the outer timeout.

    If both expire at the same instant, the outer timeout raises.
    """

    async def main():
        async with aio.timeout(3600) as outer:
            with pytest.raises(TimeoutError):
                async with aio.timeout(0.001):
                    await forever()
        assert not outer.expired()
        when = asyncio.get_running_loop().time() + 0.001
        with pytest.raises(TimeoutError):  # noqa: PT012 - nesting is what is tested
            async with aio.timeout_at(when) as outer:
                try:
                    async with aio.timeout_at(when) as inner:
                        await forever()
                finally:
                    assert inner.expired()

    runner.run(main())


def test_a_cancellation_from_outside_wins(runner):
    """
    If a task whose timeout expires was also cancelled from outside, it gets CancelledError.

    `cancelling()` of the task is correct.
    """

    async def main():
        async def body():
            async with aio.timeout(0):
                await forever()

        task = asyncio.ensure_future(body())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelling() == 1

    runner.run(main())


def test_rescheduling(runner):
    """
    A deadline can be moved in both directions while the body runs, but not before the body starts or after it ends.
    """

    async def main():
        loop = asyncio.get_running_loop()
        timeout = aio.timeout(3600)
        with pytest.raises(RuntimeError, match="has not been entered"):
            timeout.reschedule(1.0)
        with pytest.raises(TimeoutError):  # noqa: PT012 - the block is what times out
            async with timeout:
                timeout.reschedule(None)
                assert timeout.when() is None
                timeout.reschedule(loop.time() + 0.001)
                await forever()
        with pytest.raises(RuntimeError, match="Cannot change state of expired Timeout"):
            timeout.reschedule(1.0)
        with pytest.raises(RuntimeError, match="already been entered"):
            async with timeout:
                pass

    runner.run(main())


def test_an_exit_stack_takes_a_timeout(runner):
    """
    An AsyncExitStack can enter and leave a timeout.
    """

    async def main():
        stack = AsyncExitStack()
        timeout = await stack.enter_async_context(aio.timeout(0.001))
        with pytest.raises(asyncio.CancelledError) as caught:
            await forever()
        with pytest.raises(TimeoutError):
            await stack.__aexit__(asyncio.CancelledError, caught.value, caught.value.__traceback__)
        assert timeout.expired()
        async with AsyncExitStack() as stack:
            timeout = await stack.enter_async_context(aio.timeout(3600))
        assert not timeout.expired()
        assert isinstance(timeout, AbstractAsyncContextManager)

    runner.run(main())


@pytest.mark.parametrize("name", ["__aenter__", "__aexit__"])
@pytest.mark.parametrize("args", [(), (None,), (3, None, None, None)])
def test_a_method_of_the_class_wants_a_timeout(name, args):
    """
    If `__aenter__` or `__aexit__` is called on the class, the first argument must be a Timeout.
    """
    with pytest.raises(TypeError, match="takes a Timeout first"):
        getattr(aio.Timeout, name)(*args)


def test_nan_is_refused(runner):
    """
    All four timeout functions refuse NaN at the call.
    """

    async def main():
        with pytest.raises(InvalidDelayError):
            aio.timeout(math.nan)
        with pytest.raises(InvalidDelayError):
            aio.timeout_at(math.nan)
        with pytest.raises(InvalidDelayError):
            await aio.sleep(math.nan)
        with pytest.raises(InvalidDelayError):
            await aio.wait_for(asyncio.get_running_loop().create_future(), math.nan)

    runner.run(main())


@pytest.mark.parametrize("when", [math.inf, None])
def test_a_due_timeout_can_be_moved_by_the_end_of_another(runner, when):
    """
    If two timeouts are due at once, code that handles the cancellation of the first timeout can still move the second.
    """

    async def main():
        timeouts = {}

        class Moving(asyncio.Future):
            def cancel(self, msg=None):
                timeouts["second"].reschedule(when)
                loop.call_soon(lambda: held.done() or held.set_result("in time"))
                return super().cancel(msg)

        async def body(name, future):
            async with aio.timeout(None) as timeouts[name]:
                return await future

        loop = asyncio.get_running_loop()
        held = loop.create_future()
        bodies = asyncio.gather(body("first", Moving()), body("second", held), return_exceptions=True)
        await asyncio.sleep(0)
        at = loop.time() + 0.05
        for name in ("first", "second"):
            timeouts[name].reschedule(at)
        first, second = await bodies
        assert isinstance(first, TimeoutError)
        assert second == "in time"
        assert (timeouts["second"].when(), timeouts["second"].expired()) == (when, False)
        assert len(loop._tickwheel_deadlines) == 0

    runner.run(main())


def test_only_inside_a_loop_and_a_task(loop):
    """
    A timeout is refused without a running loop or outside a task.
    """
    with pytest.raises(RuntimeError, match="no running event loop"):
        aio.timeout(1)
    caught = []

    def enter():
        step = aio.timeout(1).__aenter__()
        try:
            next(step.__await__())
        except RuntimeError as error:
            caught.append(str(error))

    loop.call_soon(enter)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert caught == ["Timeout should be used inside a task"]


def test_an_unused_timeout_keeps_no_task_alive(runner):
    """
    After its body has ended, a Timeout object does not keep the task alive in which it was used.
    """

    async def main():
        async def body():
            async with aio.timeout(3600) as timeout:
                await asyncio.sleep(0)
            return timeout

        task = asyncio.ensure_future(body())
        timeout = await task
        watch = weakref.ref(task)
        del task
        await asyncio.sleep(0)
        gc.collect()
        assert watch() is None
        assert not timeout.expired()

    runner.run(main())


def test_many_at_once(runner):
    """
    A thousand tasks with a timeout each get their own TimeoutError.
    """

    async def main():
        async def body(place):
            try:
                async with aio.timeout(0.001 * (place % 10) if place % 2 else 3600):
                    await asyncio.sleep(0 if place % 2 == 0 else 3600)
            except TimeoutError:
                return True
            return False

        outcomes = await asyncio.gather(*(body(place) for place in range(1000)))
        assert outcomes == [place % 2 == 1 for place in range(1000)]

    runner.run(main())


def test_wait_for_and_sleep(runner):
    async def main():
        assert await aio.wait_for(fut=aio.sleep(0.001, "slept"), timeout=3600) == "slept"
        assert await aio.wait_for(aio.sleep(0, "slept"), None) == "slept"
        with pytest.raises(TimeoutError):
            await aio.wait_for(forever(), 0.001)
        with pytest.raises(TimeoutError):
            await aio.wait_for(forever(), 0)
        assert await aio.sleep(-(10**400), "slept") == "slept"  # past all floats, and still in the past
        with pytest.raises(TimeoutError):
            await aio.wait_for(forever(), -(10**400))

    runner.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_neither_a_child_nor_another_thread_inherits_the_running_loop(runner):
    """
    While a loop runs in one thread, a timeout is refused in a forked child and in another thread without a loop.
    """

    def is_refused():
        try:
            aio.timeout(1.0)
        except RuntimeError as error:
            return "no running event loop" in str(error)
        return False

    def fork():
        child = os.fork()
        if child == 0:
            os._exit(0 if is_refused() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    async def main():
        for _ in range(2):  # the second try uses what the first has cached
            async with aio.timeout(3600):
                pass
        assert fork() == 0
        answers = []
        thread = threading.Thread(target=lambda: answers.append(is_refused()))
        thread.start()
        thread.join()
        assert answers == [True]
        async with aio.timeout(3600):
            pass

    runner.run(main())


class Kept:
    """
    An object that a task refers to.
    """


def test_a_pending_timeout_keeps_nothing_of_a_closed_loop():
    """
    A task that waits inside a timeout is collected with its loop once the loop is closed, as on asyncio's own loop.
    """
    kept = Kept()
    left = weakref.ref(kept)

    async def wait(something):
        async with aio.timeout(1000):
            await forever()
        return something

    async def main(something):
        task = asyncio.create_task(wait(something))
        await asyncio.sleep(0)
        assert not task.done()

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # otherwise it reports that the task was destroyed
    loop.run_until_complete(main(kept))
    loop.close()
    left_loop = weakref.ref(loop)
    del kept, loop
    gc.collect()
    assert (left(), left_loop()) == (None, None)


def test_an_exception_that_carried_a_timeout_belongs_to_the_caller(runner):
    """
    A StopIteration that a caller gets by stepping `__aenter__` by hand belongs to the caller.

    No later timeout reuses it, and it is freed when the caller drops it.
    """

    def enter(timeout):
        with pytest.raises(StopIteration) as caught:
            timeout.__aenter__().__await__().__next__()
        return caught.value

    async def main():
        first = aio.timeout(3600)
        kept = enter(first)
        async with aio.timeout(3600) as second:
            assert kept.value is first
        assert enter(aio.timeout(3600)) is not kept
        await first.__aexit__(None, None, None)
        assert kept.value is first
        del first, second, kept
        gc.collect()
        assert [each for each in gc.get_objects() if type(each).__name__ == "TimeoutStep"] == []

    runner.run(main())
