"""
A waiter waits for a time or a wake-up, and loses no wake-up.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tickwheel import BootClock, MonotonicClock
from tickwheel.drivers._boot_waiter import BootWaiter
from tickwheel.drivers._waiter import new_waiter

PATIENCE_S = 20.0


class OtherClock(MonotonicClock):
    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + 10**15


CLOCKS = [MonotonicClock, BootClock, OtherClock]


@pytest.mark.realtime
@pytest.mark.parametrize("clock", [make() for make in CLOCKS], ids=lambda clock: type(clock).__name__)
def test_until_a_time(clock):
    """
    A wait ends when the clock reaches the requested time, and not before. It returns False if it was not woken.
    """
    waiter = new_waiter(clock)
    for delay_ns in (1, 1_000, 100_000, 5_000_000):
        deadline = clock.monotonic_ns() + delay_ns
        assert not waiter.wait(deadline)
        assert clock.monotonic_ns() >= deadline - (0 if type(clock) is not OtherClock else 1_000_000)
    for past in (0, 1, clock.monotonic_ns() - 1):
        assert not waiter.wait(past)


@pytest.mark.parametrize("clock", [make() for make in CLOCKS], ids=lambda clock: type(clock).__name__)
def test_an_early_wake_up_is_kept(clock):
    """
    A wake-up that comes before a wait ends the wait at once.
    """
    waiter = new_waiter(clock)
    for _ in range(1_000):
        waiter.wake()
    assert waiter.wait(None)
    assert not waiter.wait(clock.monotonic_ns())
    waiter.wake()
    assert waiter.wait(0)


@pytest.mark.parametrize("clock", [make() for make in CLOCKS], ids=lambda clock: type(clock).__name__)
def test_woken_by_another_thread(clock):
    """
    A thread that waits for an hour, or without a limit, can be woken.
    """
    waiter, answers = new_waiter(clock), new_waiter(MonotonicClock())
    rounds = 1_000

    def wait() -> None:
        for number in range(rounds):
            assert waiter.wait(None if number % 2 else clock.monotonic_ns() + 3_600 * 10**9)
            answers.wake()

    thread = threading.Thread(target=wait)
    thread.start()
    for _ in range(rounds):
        waiter.wake()
        assert answers.wait(time.monotonic_ns() + int(PATIENCE_S * 1e9))
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.skipif(not BootWaiter.is_available(), reason="this system has no timerfd")
def test_a_boot_clock_waits_in_boot_time():
    """
    A BootClock waits on a kernel timer of CLOCK_BOOTTIME, which runs even while the machine is suspended.
    """
    waiter = new_waiter(BootClock())
    assert isinstance(waiter, BootWaiter)
    facts = Path(f"/proc/self/fdinfo/{waiter._timer}").read_text("ascii")
    assert f"clockid: {time.CLOCK_BOOTTIME}" in facts


@pytest.mark.skipif(not BootWaiter.is_available(), reason="this system has no timerfd")
def test_a_wake_up_after_the_end(tmp_path):
    """
    Waking a waiter after its end has no effect, even if another file now has its file descriptor.
    """
    waiter = BootWaiter()
    token = waiter._token
    waiter.__del__()
    with (tmp_path / "file").open("wb") as file:
        os.dup2(file.fileno(), token)
        waiter.wake()
        os.close(token)
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.skipif(not BootWaiter.is_available(), reason="this system has no timerfd")
def test_boot_waiters_give_their_files_back():
    """
    A waiter that is freed closes its two file descriptors.
    """
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        BootWaiter()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
