"""
Under gevent, tickwheel's threads are system threads, even after monkey-patching.

Eventlet is refused.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from libraries import needs_libraries
from processes import free_port, wait_until_up

PATIENCE_S = 60.0
HERE = Path(__file__).parent
PARTS = ("wheel", "keyed", "pool", "cache", "context", "closed", "scheduler", "loads", "lock", "timer", "dropped")
EVENTLET = """
import eventlet
{patched}
from tickwheel import PoolExecutor, TimerWheel
from tickwheel.scheduler import Scheduler
wheel = None
{late}
def submit():
    from tickwheel.timers.contract import DueTimer
    PoolExecutor(1).submit(None)
for make in ((lambda: wheel.call_later(1, print)) if wheel else TimerWheel, submit, Scheduler("memory://").start):
    try:
        make()
    except RuntimeError as error:
        print(str(error).startswith("eventlet has replaced"), "thread=False" in str(error))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *command], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@needs_libraries("gevent")
@pytest.mark.parametrize("order", ["before", "after"])
def test_callbacks_run_in_system_threads(order):
    """
    Timers, keys, pools, caches, contexts and jobs fire outside the hub's thread.
    """
    done = run(str(HERE / "gevent_app.py"), order)
    assert (done.stdout.splitlines(), done.stderr) == ([f"{part} True" for part in PARTS], "")


@needs_libraries("eventlet")
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
def test_eventlet_is_refused(is_late):
    """
    If eventlet has patched threads, every function that needs a thread raises an error with a remedy.
    """
    patch = "eventlet.monkey_patch()"
    script = EVENTLET.format(patched="" if is_late else patch, late=f"wheel = TimerWheel(); {patch}" if is_late else "")
    done = run("-c", script)
    assert (done.stdout.splitlines(), done.stderr) == (["True True"] * 3, "")


GUNICORN = """
from gevent.event import Event
from gevent.monkey import get_original
import gevent
from tickwheel import TimerWheel

native_id = get_original("_thread", "get_native_id")

def app(environ, start_response):
    fired, threads = Event(), []
    watcher = gevent.get_hub().loop.async_()
    watcher.start(fired.set)
    wheel = TimerWheel()
    wheel.call_later(0.05, lambda: (threads.append(native_id()), watcher.send()))
    is_fired = fired.wait(20)
    wheel.close()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{is_fired} {threads != [native_id()]} {wheel.join(20)}".encode()]
"""


@pytest.mark.slow
@needs_libraries("gevent", "gunicorn")
@pytest.mark.parametrize(
    "preload", ["", "import tickwheel.drivers.executors, tickwheel.scheduler"], ids=["app", "config"]
)
def test_gunicorn(tmp_path, preload):
    """
    A wheel fires in a worker of `gunicorn -k gevent`, whether the worker or the master imports tickwheel.
    """
    (tmp_path / "application.py").write_text(GUNICORN)
    (tmp_path / "gunicorn.conf.py").write_text(preload + "\n")
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, "-m", "gunicorn", "-k", "gevent", "-b", f"127.0.0.1:{port}", "application:app"]
    with log.open("w") as file, subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file) as server:
        try:
            wait_until_up(server, log, lambda: "Booting worker" in log.read_text())
            with urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as reply:
                assert reply.read() == b"True True True"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


CELERY = """
import gevent, sys
from celery import Celery, signals
from celery.exceptions import WorkerShutdown
from gevent.event import Event
from gevent.monkey import get_original
from tickwheel import TimerWheel

app = Celery("application", broker="memory://", backend="cache+memory://")
app.conf.worker_enable_remote_control = False
native_id = get_original("_thread", "get_native_id")

@app.task
def work():
    fired, threads = Event(), []
    watcher = gevent.get_hub().loop.async_()
    watcher.start(fired.set)
    with TimerWheel() as wheel:
        wheel.call_later(0.05, lambda: (threads.append(native_id()), watcher.send()))
        is_fired = fired.wait(20)
    print("found", is_fired, threads != [native_id()], file=sys.__stdout__, flush=True)

@signals.worker_ready.connect
def begin(**_):
    work.delay()
"""


@pytest.mark.slow
@needs_libraries("gevent", "celery")
@pytest.mark.parametrize("order", ["before", "after"])
def test_celery(tmp_path, order):
    """
    A wheel fires in a task of `celery -P gevent`, whether tickwheel was imported before or after the patch.
    """
    (tmp_path / "application.py").write_text(CELERY)
    start = "from celery.__main__ import main; import sys; sys.argv = {!r}; main()".format(
        ["celery", "-A", "application", "worker", "-P", "gevent", "-c", "2", "-l", "INFO"]
    )
    script = f"import tickwheel.drivers.executors, tickwheel.scheduler; {start}" if order == "before" else start
    log = tmp_path / "log"
    with (
        log.open("w") as file,
        subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=file, stderr=file) as worker,
    ):
        try:
            wait_until_up(worker, log, lambda: "found" in log.read_text())
        finally:
            worker.terminate()
            worker.wait(PATIENCE_S)
    assert "found True True" in log.read_text()
