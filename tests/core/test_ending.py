"""
The end of the interpreter, while native code in another thread runs Python.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PATIENCE_S = 20
# While the main thread ends, the other thread is deep in Python, and takes the interpreter's lock again and again.
FRAME = """
import threading, time

from tickwheel import TimerWheel, aio
from tickwheel._core import Engine
from tickwheel.cache import TTLCache

inside = threading.Event()


def stay(*_):
    inside.set()
    while True:
        time.sleep(0.0001)  # each return wants the interpreter's lock, which is when the thread is ended


def beside(*words):
    threading.Thread(target=words[0], args=words[1:], daemon=True).start()


class Key:
    __eq__ = stay

    def __hash__(self):
        return 1


class Hashed:
    __hash__ = stay


class Kept:
    __del__ = stay


class Clock:
    monotonic_ns = stay


class Iterated:
    __iter__ = stay


{body}
inside.wait()
"""
BODIES = {
    "callback": "TimerWheel().call_later(0.0, stay)",
    "batch": "TimerWheel().call_later_many([0.0], stay)",
    "on_error": "TimerWheel(on_error=stay).call_later(0.0, [].pop)",
    "on_earlier": "engine = Engine(); engine.on_earlier = stay; engine.arm(); beside(engine.call_later, 1.0, int)",
    "runner": "engine = Engine(); engine.runner = stay; engine.call_later(0.0, int); beside(engine.fire_due)",
    "clock": "beside(Engine, Clock())",
    "delays": "wheel = TimerWheel(); beside(wheel.call_later_many, Iterated(), int)",
    "timer's key hashed": "wheel = TimerWheel(on_expire=print); beside(wheel.set, Hashed(), 1, 60.0)",
    "timer's key compared": """
wheel = TimerWheel(on_expire=print)
wheel.set(Key(), 1, 60.0)
beside(wheel.set, Key(), 1, 60.0)
""",
    "key hashed": "cache = TTLCache(9, 60); beside(cache.get, Hashed())",
    "key compared": "cache = TTLCache(9, 60); cache[Key()] = 1; beside(cache.get, Key())",
    "on_evict": "cache = TTLCache(1, 60, on_evict=stay); cache[1] = 1; beside(cache.__setitem__, 2, 2)",
    "getsizeof": "cache = TTLCache(9, 60, getsizeof=stay); beside(cache.__setitem__, 2, 2)",
    "finalizer": "cache = TTLCache(9, 60); cache[1] = Kept(); beside(cache.clear)",
    "timer's finalizer": "wheel = TimerWheel(); timer = wheel.call_later(60.0, print, Kept()); beside(timer.cancel)",
    "loop": "loop = aio.EventLoop(); loop.call_later(0.0, stay); beside(loop.run_forever)",
    "loop's handler": """
loop = aio.EventLoop()
loop.set_exception_handler(stay)
loop.call_soon([].pop)
beside(loop.run_forever)
""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_interpreter_ends_while_native_code_runs_python(body):
    """
    The process exits with 0, although another thread is running Python code that native code has called.
    """
    ran = subprocess.run(
        [sys.executable, "-P", "-c", FRAME.format(body=body)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
