"""
Wheels in a process that ends, forks, or is interrupted.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PATIENCE_S = 120.0
WHEELS = {"native": "None", "heap": "HeapWheel()"}
HEAD = """
import atexit, os, signal, sys, threading, time
atexit.register(lambda: at_the_end())  # registered first, so called last
def at_the_end():
    pass
from tickwheel import BootClock, TimerWheel
from tickwheel.wheels.heap import HeapWheel
wheel = TimerWheel(wheel={wheel}, on_expire=print)
"""


def run(script: str, kind: str) -> subprocess.CompletedProcess[str]:
    text = HEAD.replace("{wheel}", WHEELS[kind]) + textwrap.dedent(script)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def expect(script: str, kind: str, stdout: str) -> None:
    """
    Run a script. Check that it exits with 0, prints exactly the expected lines, and prints no warning.
    """
    done = run(script, kind)
    assert (done.returncode, done.stdout, done.stderr) == (0, stdout, "")


pytestmark = pytest.mark.parametrize("kind", WHEELS)


def test_the_end_with_timers_pending(kind):
    """
    The interpreter ends at once and quietly while timers are pending.
    """
    expect(
        """
        for delay in (0, 0.001, 5, 3600, float("inf")):
            wheel.call_later(delay, lambda: None)
            wheel.set(delay, "value", 3600)
        time.sleep(0.05)  # the thread has begun to wait
        print("end")
        """,
        kind,
        "end\n",
    )


def test_the_end_with_timers_firing(kind):
    """
    The interpreter ends quietly while timers fire continuously.
    """
    expect(
        """
        def again():
            wheel.call_later(0, again)
        for _ in range(10):
            again()
        others = [TimerWheel() for _ in range(10)]
        for other in others:
            other.call_later(0, lambda: None)
        time.sleep(0.05)  # the threads are firing
        print("end")
        """,
        kind,
        "end\n",
    )


@pytest.mark.parametrize("block", ["time.sleep(3600)", "threading.Event().wait()", "busy()"])
def test_the_end_with_a_callback_that_blocks(kind, block):
    """
    A callback that never returns does not prevent the end of the interpreter, and causes no crash.
    """
    expect(
        f"""
        begun = threading.Event()
        def busy():
            while True:
                pass
        def blocking():
            begun.set()
            {block}
        wheel.call_later(0, blocking)
        begun.wait()
        print("end", flush=True)
        """,
        kind,
        "end\n",
    )


def test_a_wheel_that_is_set_at_the_end(kind):
    """
    A timer that is set in an exit handler does not fire, and causes neither a hang nor a warning.
    """
    expect(
        """
        def at_the_end():
            wheel.call_later(0, print, "never")
            fresh = TimerWheel()
            try:
                fresh.call_later(0, print, "never")
            except RuntimeError as error:
                assert "new thread" in str(error), error
            print("end")
        wheel.call_later(3600, print)
        """,
        kind,
        "end\n",
    )


def test_a_waiting_main_thread_can_be_interrupted(kind):
    """
    If the main thread waits, Ctrl-C raises KeyboardInterrupt in the main thread, and not in the thread of the timers.
    """
    expect(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
        try:
            wheel.call_later(0.02, os.kill, os.getpid(), signal.SIGINT)
            threading.Event().wait()
        except KeyboardInterrupt:
            print("interrupted")
        done = threading.Event()
        wheel.call_later(0, done.set)
        print(done.wait(60))
        """,
        kind,
        "interrupted\nTrue\n",
    )


needs_fork = pytest.mark.needs("os.fork")

FORK = """
def in_child(act):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            act()
            code = 0
        except BaseException as error:
            print("child:", repr(error), flush=True)
            code = 1
        os._exit(code)
    pid, status = os.waitpid(child, 0)
    print("child ended with", os.waitstatus_to_exitcode(status), flush=True)
"""


@needs_fork
def test_a_fork(kind):
    """
    A forked child starts with an empty wheel. The parent's timers fire in the parent.
    """
    expect(
        FORK
        + """
done, child_done = threading.Event(), threading.Event()
first = wheel.call_later(3600, done.set)
series = wheel.call_every(3600, print)
wheel.set("key", "value", 3600)
def act():
    assert (len(wheel), first.cancelled(), wheel.get("key")) == (0, True, None)
    assert (series.pending(), series.cancelled(), series.cancel()) == (False, True, False)
    assert not series.set_interval(1)
    assert repr(series).startswith("<Periodic cancelled")
    wheel.call_later(0.001, child_done.set)
    assert child_done.wait(60)
    assert not done.is_set()
    wheel.set("key", "other", 3600)
    assert wheel.get("key") == "other"
    wheel.check()
    wheel.close()
    assert wheel.join(60)
in_child(act)
assert not done.is_set()
assert series.pending()
assert first.reschedule(0)
assert done.wait(60)
print(wheel.get("key"))
""",
        kind,
        "child ended with 0\nvalue\n",
    )


@needs_fork
def test_a_child_keeps_no_keys(kind):
    """
    In a forked child, the parent's keys and values are freed, even if several wheels share them.
    """
    expect(
        FORK
        + """
import weakref
from tickwheel import ShardedWheel
class Value:
    pass
values = [Value(), Value()]
gone = [weakref.ref(value) for value in values]
wheel.set("key", values[0], 3600)
shards = ShardedWheel(2, on_expire=print, make_wheel=lambda: {wheel})
shards.set("key", values[1], 3600)
def act():
    values.clear()
    assert [value() for value in gone] == [None, None]
    shards.set("key", "other", 3600)
    assert shards.cancel("key")
    shards.check()
    assert shards._key_shards == {}
in_child(act)
print(shards.get("key") is values[1], wheel.get("key") is values[0])
os._exit(0)
""".replace("{wheel}", WHEELS[kind]),
        kind,
        "child ended with 0\nTrue True\n",
    )


@needs_fork
def test_a_fork_amid_everything(kind):
    """
    A child that is forked while other threads set, cancel and fire timers never deadlocks.
    """
    expect(
        FORK
        + """
is_over = False
wheel._keyed._on_expire = lambda *_: None
def hammer(number):
    while not is_over:
        wheel.call_later(0, int)
        wheel.call_later(5, int).cancel()
        wheel.set(number, "value", 0.001)
for number in range(3):
    threading.Thread(target=hammer, args=(number,)).start()
def act():
    done = threading.Event()
    assert len(wheel) == 0
    wheel.set(1, 2, 3600)
    wheel.call_later(0, done.set)
    assert done.wait(60)
    wheel.check()
for _ in range(10):
    in_child(act)
is_over = True
""",
        kind,
        "child ended with 0\n" * 10,
    )


@needs_fork
def test_a_fork_amid_first_uses(kind):
    """
    A child that is forked while other threads use a feature for the first time never deadlocks.
    """
    expect(
        FORK
        + """
def trial():
    sys.setswitchinterval(1e-6)
    fresh = TimerWheel(wheel={wheel}, on_expire=lambda *_: None)
    begin = threading.Barrier(9)
    def hammer(number):
        begin.wait()
        for _ in range(20):
            fresh.set(number, "value", 3600)
            fresh.move(number, 3600)
    for number in range(8):
        threading.Thread(target=hammer, args=(number,), daemon=True).start()
    begin.wait()
    in_child(lambda: (fresh.set(1, "value", 3600), fresh.move(1, 3600)))
for _ in range(100):
    in_child(trial)
""".replace("{wheel}", WHEELS[kind]),
        kind,
        "child ended with 0\n" * 200,
    )


@needs_fork
def test_a_fork_in_a_callback(kind):
    """
    If a callback forks, the child completes the callback and finds the wheel closed.
    """
    expect(
        FORK
        + """
done, sibling = threading.Event(), threading.Event()
def act():
    assert (len(wheel), wheel.closed()) == (0, True)
    fired = threading.Event()
    TimerWheel(wheel={wheel}).call_later(0, fired.set)
    assert fired.wait(60)
def forking():
    wheel.call_later(0, sibling.set)
    in_child(act)
    done.set()
wheel.call_later(0, forking)
assert done.wait(60) and sibling.wait(60)
print("end")
""".replace("{wheel}", WHEELS[kind]),
        kind,
        "child ended with 0\nend\n",
    )


@needs_fork
def test_a_fork_in_a_worker(kind):
    """
    If a callback in a pool forks, the child does not run the callbacks that waited in the pool.
    """
    expect(
        FORK
        + """
from tickwheel import PoolExecutor
pool = PoolExecutor(workers=1)
wheel = TimerWheel(wheel={wheel}, executor=pool)
waits, done = threading.Event(), threading.Event()
def go_on(worker):  # in the child, once the worker has ended that forked
    while worker in sys._current_frames():
        time.sleep(0.001)  # not every Python lets others join the thread that forked
    fired = threading.Event()
    TimerWheel(wheel={wheel}, executor=pool).call_later(0, fired.set)
    os._exit(0 if fired.wait(60) else 1)
def forking():
    waits.wait(60)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        threading.Thread(target=go_on, args=(threading.get_ident(),)).start()
        return
    pid, status = os.waitpid(child, 0)
    print("child ended with", os.waitstatus_to_exitcode(status), flush=True)
parent = os.getpid()
wheel.call_later(0, forking)
for number in range(3):
    wheel.call_later(0, lambda: os.getpid() == parent or print("in the child", flush=True))
wheel.call_later(0, done.set)
while pool.stats()["executor_waiting"] < 4:
    waits.wait(0.001)
waits.set()
assert done.wait(60)
print("end")
""".replace("{wheel}", WHEELS[kind]),
        kind,
        "child ended with 0\nend\n",
    )


@needs_fork
def test_a_fork_with_a_boot_clock(kind):
    """
    A parent and its forked child use separate waits for the boot clock, and neither affects the other.
    """
    expect(
        FORK
        + """
wheel = TimerWheel(wheel={wheel}, clock=BootClock())
done = threading.Event()
wheel.call_later(0.3, done.set)
def act():
    for _ in range(20):
        fired = threading.Event()
        wheel.call_later(0.001, fired.set)
        assert fired.wait(60)
in_child(act)
assert done.wait(60)
print("end")
""".replace("{wheel}", WHEELS[kind]),
        kind,
        "child ended with 0\nend\n",
    )


@pytest.mark.parametrize("is_started", [True, False])
def test_a_finalizer_sets_timers_while_the_interpreter_ends(kind, is_started):
    """
    While the interpreter ends and imports fail, a finalizer can use all methods of a wheel.
    """
    expect(
        f"""
        import datetime, functools

        class Late:
            def __init__(self):
                self.wheel, self.print, self.delta = wheel, print, datetime.timedelta(seconds=1)
                self.partial, self.nan = functools.partial(at_the_end), float("nan")

            def note(self, *_):
                pass

            def __del__(self):
                wheel, say = self.wheel, self.print
                try:
                    __import__("colorsys")
                except ImportError:
                    say("too late to import")
                say(wheel.call_later(1, self.note).cancel(), wheel.call_later(self.delta, self.partial).cancel())
                say(wheel.call_later(1.0, say, slack=1.0).cancel(), wheel.call_every(1.0, self.note).cancel())
                say(wheel.cancel_many(wheel.call_later_many([1.0, 2.0], self.note)))
                wheel.set("a", 1, 1.0)
                say(wheel.cancel("a"), len(wheel.pending()))
                try:
                    wheel.call_later(self.nan, say)
                except ValueError as error:
                    say(type(error).__name__)
                say(len(wheel.close()))

        if {is_started}:
            wheel.call_later(100, print)
        sys.modules["late"] = Late()
        """,
        kind,
        f"too late to import\nTrue True\nTrue True\n2\nTrue {int(is_started)}\nInvalidDelayError\n{int(is_started)}\n",
    )
