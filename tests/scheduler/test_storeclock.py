"""
A scheduler's copy of the store's clock is never ahead of the store, whatever clock this machine has.
"""

from __future__ import annotations

import asyncio
import random
import threading
from fractions import Fraction
from unittest import mock

import pytest

from tickwheel import TimerWheel
from tickwheel.engine.elapsed import RelativeJobs
from tickwheel.host.commits import elapsed_of
from tickwheel.host.runtime import Runtime
from tickwheel.host.store_clock import StoreClock
from tickwheel.scheduler import AsyncScheduler, Job, Schedule, SetRequest
from tickwheel.stores import Abilities, MemoryStore
from tickwheel.testing import ManualClock

STORE_MS = 1_800_000_000_000


def sampled(clock, there_s, back_s, started_ns):
    """
    Return a copy of the store's clock that was set by one sample.

    The request for the sample took *there_s* to reach the store, and the answer took *back_s*.
    """
    told = StoreClock(Runtime(clock=clock))
    before = told.local()
    clock.advance(there_s)
    store_ms = STORE_MS + (clock.monotonic_ns() - started_ns) // 1_000_000
    clock.advance(back_s)
    told.sample(store_ms, before, told.local())
    return told


@pytest.mark.parametrize(("there_s", "back_s"), [(0, 0), (2.0, 0), (0, 2.0), (0.003, 0.0001)])
def test_never_ahead(there_s, back_s):
    """
    The scheduler's copy of the store's clock is never ahead of the store, whatever the delays of the connection.

    The copy is behind the store by at most these delays.
    """
    clock = ManualClock()
    started_ns = clock.monotonic_ns()
    told = sampled(clock, there_s, back_s, started_ns)
    store = STORE_MS + (clock.monotonic_ns() - started_ns) / 1e6
    assert store - 1000 * (there_s + back_s) - 1 <= told.now() <= store


def test_setting_the_time_of_day_changes_nothing():
    """
    If the store has its own clock, setting this machine's time of day moves no deadline.
    """
    clock = ManualClock()
    told = sampled(clock, 0, 0, clock.monotonic_ns())
    now, deadline = told.now(), told.deadline(STORE_MS + 60_000)
    clock.step_wall(3600.0)
    assert (told.now(), told.deadline(STORE_MS + 60_000)) == (now, deadline)
    clock.step_wall(-86_400.0)
    assert told.now() == now


def test_a_quicker_sample_is_kept():
    """
    If a slow sample of the store's clock follows a quick one, the scheduler keeps the more exact time of the quick one.
    """
    clock = ManualClock()
    started_ns = clock.monotonic_ns()
    told = sampled(clock, 0.0001, 0.0001, started_ns)
    before = told.local()
    clock.advance(3.0)
    store = STORE_MS + (clock.monotonic_ns() - started_ns) / 1e6
    told.sample(int(store), before, told.local())
    assert store - 2 < told.now() <= store


def test_a_store_that_was_set_back():
    """
    If the store's own clock is set back or forward, the scheduler's copy follows it at the next sample.
    """
    clock = ManualClock()
    started_ns = clock.monotonic_ns()
    told = sampled(clock, 0, 0, started_ns)
    for store_ms in (STORE_MS - 3_600_000, STORE_MS + 3_600_000):
        told.sample(store_ms, told.local(), told.local())
        assert store_ms - 1 <= told.now() <= store_ms


def test_a_deadline_is_not_before_its_instant():
    """
    If a timer for an instant fires, the scheduler's copy of the store's clock has reached that instant.
    """
    clock = ManualClock(wall=1_700_000_000.123456)
    told, wheel, read = StoreClock(Runtime(clock=clock)), TimerWheel(clock=clock), []
    for at in (1_700_000_001_000, 1_700_000_060_017, 1_700_086_400_001):
        wheel.call_at(told.deadline(at), lambda: read.append(told.now()))
        clock.jump_to_next()
        assert at <= read.pop() < at + 1


def test_a_thread_that_is_held_up_gets_no_late_deadline():
    """
    If a thread is held up while it reads two clocks one after another, the deadline that it computes is not too late.
    """
    clock = ManualClock()
    told = StoreClock(Runtime(clock=clock))
    at = told.now() + 60_000
    instant = told.monotonic() + 60

    def held_up(read):
        def ask():
            clock.advance(0.01)
            return read()

        return ask

    slow = {name: held_up(getattr(clock, name)) for name in ("wall_ns", "monotonic_ns")}
    with mock.patch.multiple(clock, **slow):
        assert told.deadline(at) <= instant + 1e-6


class Remote(MemoryStore):
    """
    A store that seems to have its own clock.
    """

    abilities = Abilities(has_many_owners=True)


def test_a_client_reads_the_clock_again(make):
    """
    A process that only sets jobs renews no lease, so it reads the store's clock separately.

    Even after a day of drift, it sets no job early or late.
    """
    clock = ManualClock(wall=1_800_000_000.0)
    store = Remote(clock)
    client = make(store, clock=clock)
    client.set("first", delay=60, target="log")
    clock.advance(86_400)
    due_at = client.set("k", delay=60, target="log").job.due_at
    assert 60_000 <= due_at - store.now_ms() <= 60_001
    clock.advance(86_400)
    due_at = client.set_many([SetRequest("l", delay=60, target="log")])[0].job.due_at
    assert 60_000 <= due_at - store.now_ms() <= 60_001


def test_an_async_client_reads_the_clock_again(monkeypatch):
    """
    An async client reads the clock in another thread.

    Even after a day of drift, the client sets no job early or late.
    """
    clock = ManualClock(wall=1_800_000_000.0)
    store, threads = Remote(clock), []

    async def run():
        client = AsyncScheduler(store, clock=clock)
        await client.set("first", delay=60, target="log")
        monkeypatch.setattr(store, "now_ms", lambda: threads.append(threading.get_ident()) or Remote.now_ms(store))
        clock.advance(86_400)
        due_at = (await client.set("k", delay=60, target="log")).job.due_at
        await client.stop()
        return due_at

    assert 60_000 <= asyncio.run(run()) - Remote.now_ms(store) <= 60_001
    assert threads
    assert threading.get_ident() not in threads


class Slewed:
    """
    A machine whose clocks have a wrong rate. Its monotonic clock stops during a suspend.

    The object also has the true time.
    """

    def __init__(self):
        self.true_ns = self.monotonic = self.boot = 10**12
        self.rate = 1.0

    def pass_by(self, s, *, suspended=False):
        """
        Let *s* seconds of true time pass.
        """
        ns = int(s * 1e9)
        self.true_ns += ns
        self.boot += int(ns * self.rate)
        self.monotonic += 0 if suspended else int(ns * self.rate)

    def monotonic_ns(self):
        """
        Return the monotonic time, which does not advance during a suspend.
        """
        return self.monotonic

    def elapsed_ns(self):
        """
        Return the elapsed nanoseconds, including suspends.
        """
        return self.boot

    def wall_ns(self):
        """
        Return a time of day that is unrelated to the store's.
        """
        return 0


@pytest.mark.parametrize("seed", range(20))
def test_the_earliest_is_never_ahead(seed):
    """
    The store's time is always between the bounds `earliest` and `latest` that a scheduler computes for it.

    The bounds are close to each other, even if the clocks run at wrong and changing rates.
    """
    dice, clock = random.Random(seed), Slewed()
    told = StoreClock(Runtime(clock=clock))
    for _ in range(300):
        clock.rate = dice.choice((1.0, dice.uniform(0.9, 1.1), 0.9001, 1.0999))
        before = told.elapsed()
        clock.pass_by(there := dice.choice((0.0, 0.0005, 0.02)) * dice.random())
        store_ms = clock.true_ns // 1_000_000
        clock.pass_by(back := dice.choice((0.0, 0.0005, 0.02)) * dice.random())
        told.sample(store_ms, before, told.elapsed())
        for _ in range(dice.randrange(4)):
            age = dice.choice((0.002, 0.05, 3.0)) * dice.random()
            clock.pass_by(age, suspended=dice.random() < 0.2)
            true = clock.true_ns / 1e6
            assert told.earliest() <= true < told.latest()
            _, _, origin = told.reading_for_delay()
            assert told.latest() - 1 <= origin < told.latest()
            wait_s = told.least_deadline(true + 5.0) - told.monotonic()
            assert wait_s * 1e3 >= 5.0
        clock.pass_by(0.0)
        allowed = 1 + 1.25e3 * (there + back) + 0.25 * told.age_ms() + 0.1
        assert clock.true_ns / 1e6 - told.earliest() <= allowed
        assert told.latest() - clock.true_ns / 1e6 <= allowed


@pytest.mark.parametrize("rate", [0.9001, 0.95, 0.9995, 1.0, 1.0005, 1.05, 1.0999])
@pytest.mark.parametrize("width_s", [0.0, 5.0])
def test_a_wrong_rate_is_not_a_clock_step(rate, width_s):
    """
    A wrong rate of a clock is not mistaken for a clock step, however old or slow the samples are.
    """
    clock = Slewed()
    told = StoreClock(Runtime(clock=clock))
    told.sample(STORE_MS, told.elapsed(), told.elapsed())
    start_ns, clock.rate = clock.true_ns, rate
    for turn, wait_s in enumerate((3.3, 20.0, 20.0, 60.0, 600.0, 0.1, 20.0)):
        clock.pass_by(wait_s)
        before = told.elapsed()
        clock.pass_by(width_s * (turn % 2))
        store_ms = STORE_MS + (clock.true_ns - start_ns) // 1_000_000
        clock.pass_by(width_s * (turn % 3 == 0))
        told.sample(store_ms, before, told.elapsed())
        assert told.clock_step == 0
        true = STORE_MS + (clock.true_ns - start_ns) / 1e6
        assert true - 2_200 * width_s - 2 <= told.now() <= true + 2_200 * width_s + 2
        assert told.earliest() <= true


@pytest.mark.parametrize("step_ms", [-86_400_000, -5_000, 5_000, 3_600_000])
def test_a_clock_step_of_the_server(step_ms):
    """
    If the store's clock jumps by more than a wrong rate can explain, the jump is treated as a clock step.
    """
    clock = Slewed()
    told = StoreClock(Runtime(clock=clock))
    told.sample(STORE_MS, told.elapsed(), told.elapsed())
    clock.pass_by(20.0)
    told.sample(STORE_MS + 20_000 + step_ms, told.elapsed(), told.elapsed())
    assert (told.clock_step, told.moved_ms(0, 1)) == (1, pytest.approx(step_ms, abs=10))


def test_a_suspend_has_elapsed():
    """
    If a machine is suspended for twelve seconds, its copy of the store's clock advances by twelve seconds.

    A sample of the store's clock that was taken before the suspend is then too old.
    """
    clock = Slewed()
    told = StoreClock(Runtime(clock=clock))
    told.sample(STORE_MS, told.elapsed(), told.elapsed())
    clock.pass_by(12.0, suspended=True)
    assert STORE_MS + 11_990 < told.now() <= STORE_MS + 12_000
    assert told.is_stale
    assert told.deadline(STORE_MS + 13_000) == pytest.approx(clock.monotonic_ns() / 1e9 + 1.0, abs=0.01)


class Apart(Remote):
    """
    A store whose clock shows the true time and counts how often it is read.
    """

    def __init__(self, clock):
        super().__init__()
        self.machine, self.reads, self.is_writing, self.set_by_s = clock, 0, False, 0.0

    def apply(self, writes):
        """
        Apply *writes* at the clock's true time, without counting a reading of the clock.
        """
        self.is_writing = True
        try:
            return super().apply(writes)
        finally:
            self.is_writing = False

    def now_ms(self):
        """
        Return the true time, as a server does, and count this as a reading of the clock.
        """
        self.reads += not self.is_writing
        return int(self.true_ms())

    def true_ms(self):
        """
        Return the true time with its fraction of a millisecond, without counting a reading of the clock.
        """
        return STORE_MS + self.machine.true_ns / 1e6 + self.set_by_s * 1e3


DELAY_S = 60
AGES_S = (0.0, 0.001, 0.02, 0.1, 2.0, 9.9, 60.0)
RELATIVE = {
    "set": lambda client, n: client.set(f"k{n}", delay=DELAY_S, target="log"),
    "set, as text": lambda client, n: client.set(f"k{n}", delay="PT1M", target="log"),
    "set, an interval": lambda client, n: client.set(f"k{n}", every=DELAY_S, target="log"),
    "set, an interval after a delay": lambda client, n: client.set(f"k{n}", every=5, delay=DELAY_S, target="log"),
    "set_many": lambda client, n: client.set_many([SetRequest(f"k{n}", delay=DELAY_S, target="log")])[0],
    "move": lambda client, n: client.move(f"once{n}", delay=DELAY_S),
    "move_many": lambda client, n: client.move_many([f"once{n}"], delay=DELAY_S)[0],
    "change": lambda client, n: client.change(f"daily{n}", every=DELAY_S),
    "declare": lambda client, n: client.declare([Schedule(f"d{n}", every=DELAY_S, target="log")], f"m{n}").jobs[0],
}


def slewed_pair(make, rate):
    """
    Return a machine's clock, a store with another clock, and a client on that machine.

    The client has set one-time jobs and recurring jobs.
    """
    clock = Slewed()
    store = Apart(clock)
    client = make(store, clock=clock)
    for number in range(len(AGES_S)):
        client.set(f"once{number}", at=store.true_ms() / 1e3 + 86_400, target="log")
        client.set(f"daily{number}", cron="0 0 1 1 *", target="log")
    clock.rate = rate
    return clock, store, client


@pytest.mark.parametrize("verb", RELATIVE)
@pytest.mark.parametrize("rate", [0.9001, 0.95, 0.9995, 1.0, 1.0005, 1.0999])
def test_no_delay_is_early_at_any_rate(make, verb, rate):
    """
    No delay is too short, even if the samples of the store's clock are old and the clocks have wrong rates.

    A delay is at most a few ms too long.
    """
    clock, store, client = slewed_pair(make, rate)
    for number, age_s in enumerate(AGES_S):
        clock.pass_by(age_s)
        due_at = RELATIVE[verb](client, number).job.due_at
        late = due_at - store.true_ms() - DELAY_S * 1e3
        assert 0 <= late <= 8, age_s


def test_an_async_delay_is_not_early():
    """
    With an AsyncScheduler, too, the delay of a job is never too short.
    """

    async def run():
        clock = Slewed()
        store = Apart(clock)
        client = AsyncScheduler(store, clock=clock)
        await client.set("k", delay=DELAY_S, target="log")
        clock.rate = 0.9001
        lates = []
        for age_s in (0.001, 0.02, 2.0, 9.9):
            for verb in (client.set("k", delay=DELAY_S, target="log"), client.move("k", delay=DELAY_S)):
                clock.pass_by(age_s)
                lates.append((await verb).job.due_at - store.true_ms() - DELAY_S * 1e3)
        await client.stop()
        return lates

    assert all(0 <= late <= 8 for late in asyncio.run(run()))


@pytest.mark.parametrize("gap_s", [0.001, 0.1, 0.9])
def test_a_write_does_not_read_the_clock(make, gap_s):
    """
    If a client sets or moves a job by a delay, the store adds the delay to the store's own time.

    So the client does not ask for the time.
    """
    clock, store, client = slewed_pair(make, 0.9001)
    store.reads = 0
    for number in range(10):
        clock.pass_by(gap_s)
        client.set(f"k{number}", delay=DELAY_S, target="log")
        client.move(f"k{number}", delay=DELAY_S)
        client.set(f"every{number}", every=DELAY_S, target="log")
    assert store.reads == 0


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
@pytest.mark.parametrize("verb", ["set", "set_many", "move"])
def test_a_server_that_was_set_counts_delays_by_its_new_clock(make, verb, step_s):
    """
    If the server's clock is set, and a client has not noticed this, the client's jobs are neither early nor late.
    """
    _, store, client = slewed_pair(make, 1.0)
    seen = []
    store.set_by_s = step_s
    real = store.apply
    store.apply = lambda writes: seen.extend(zip(writes, answers := real(writes), strict=True)) or answers
    due_at = RELATIVE[verb](client, 0).job.due_at
    assert 0 <= due_at - store.true_ms() - DELAY_S * 1e3 <= 8
    host = client._core.client
    assert elapsed_of(*zip(*seen, strict=True), host.clock) == ({}, True)
    host.sample()
    assert [len(jobs) for jobs in elapsed_of(*zip(*seen, strict=True), host.clock)[0].values()] == [1]


@pytest.mark.parametrize("verb", ["set", "set_many", "move"])
@pytest.mark.parametrize(("step_s", "count"), [(0.0, 1), (3600.0, 0), (-3600.0, 0)])
def test_a_slow_commit_is_not_a_clock_step(make, verb, step_s, count):
    """
    A slow commit is not mistaken for a clock step, unless the clock is set during the commit.
    """
    clock, store, client = slewed_pair(make, 1.0)
    seen = []
    real = store.apply

    def apply(writes):
        clock.pass_by(5.0)
        store.set_by_s = step_s
        answers = real(writes)
        seen.extend(zip(writes, answers, strict=True))
        return answers

    store.apply = apply
    RELATIVE[verb](client, 0)
    host = client._core.client
    found = [elapsed_of(*zip(*seen, strict=True), host.clock)[0]]
    host.sample()
    found.append(elapsed_of(*zip(*seen, strict=True), host.clock)[0])
    assert [len(each.get(0, ())) for each in found] == [count, count]


@pytest.mark.parametrize("rate", [0.9001, 1.0, 1.0999])
def test_the_end_of_a_run_is_known_within_bounds(rate):
    """
    At any rate of the machine's clock, the estimated end of a run is early by at most a small, known bound.

    If this bound is added, the delay of a retry does not start before the run has ended.
    """
    clock = Slewed()
    runtime = Runtime(clock=clock)
    told = StoreClock(runtime)
    told.sample(clock.true_ns // 1_000_000, told.elapsed(), told.elapsed())
    clock.rate, elapsed = rate, RelativeJobs(told, runtime)
    for run_s in (0.0005, 0.3, 3.0):
        clock.pass_by(run_s)
        ended, doubt = elapsed.end_of(Job("k", 1, 0))
        assert ended + doubt >= clock.true_ns / 1e6
        assert doubt <= 3 + 0.25 * told.age_ms()


@pytest.mark.parametrize(("wall", "doubt"), [(1_700_000_000.0, 0), (1_700_000_000.0004, 1)])
def test_the_end_of_a_run_on_a_manual_clock(wall, doubt):
    """
    On a manual clock, the end of a run is known to the millisecond.

    If the clock shows a whole millisecond, the end is known exactly.
    """
    runtime = Runtime(clock=ManualClock(wall=wall))
    assert RelativeJobs(StoreClock(runtime), runtime).end_of(Job("k", 1, 0)) == (1_700_000_000_000, doubt)


@pytest.mark.parametrize("delay", [0, "0s", -1, None])
def test_a_job_for_now_is_due_now(make, delay):
    """
    A job without a delay, or started by `run_now`, is due at once.
    """
    clock, store, client = slewed_pair(make, 0.9001)
    clock.pass_by(0.02)
    answer = client.run_now("once0") if delay is None else client.set("k", delay=delay, target="log")
    assert answer.job.due_at <= store.true_ms()


@pytest.mark.parametrize("start_ns", [10**13 + 1, 123_456_789_012_345, 10**15 - 7])
def test_a_manual_clock_that_stops_at_an_instant(start_ns):
    """
    If a manual clock stops exactly at an instant, a timer for that instant is then due.

    A nanosecond earlier the timer is not due.
    """
    clock = ManualClock(start_ns)
    told, wheel, fired = StoreClock(Runtime(clock=clock)), TimerWheel(clock=clock), []
    for ahead_ms in (1, 17, 1_000, 86_400_000):
        at = told.now_ms() + ahead_ms
        for deadline in (told.deadline(at), told.least_deadline(at)):
            wheel.call_at(deadline, fired.append, at)
        clock.advance(Fraction(ahead_ms * 10**6 - 1, 10**9))
        assert fired == []
        clock.advance(Fraction(1, 10**9))
        assert fired == [at, at]
        fired.clear()
