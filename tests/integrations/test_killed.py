"""
The three web applications of docs/frameworks.md, whose jobs cancel orders, are killed while jobs fire.

No job is lost or runs early.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP = EXAMPLES / "django_shop"
ORDERS = 60
FASTAPI = """
import time
import fastapi_app

class Ran(list):
    def append(self, number):
        with open("ran", "a") as file:
            file.write(f"{number} {time.time()}\\n")

fastapi_app.cancelled = Ran()
app = fastapi_app.app
"""
FLASK = """
import logging
import flask_app

class Ran(logging.Handler):
    def emit(self, record):
        with open("ran", "a") as file:
            file.write(f"{record.args[0]} {record.created}\\n")

app = flask_app.create_app()
app.logger.addHandler(Ran())
"""
TRIGGER = """
CREATE TABLE ran (number INTEGER, at REAL);
CREATE TRIGGER note AFTER UPDATE OF state ON shop_order WHEN NEW.state = 'cancelled'
BEGIN INSERT INTO ran VALUES (NEW.id, (julianday('now') - 2440587.5) * 86400); END;
"""
PLACE = """
import json
from django.test import Client
from tickwheel.integrations.django import jobs
client = Client(headers={"host": "localhost"})
for number in range(%d):
    assert client.post(f"/orders/{number}?minutes={0.05 + number / 1200}").status_code == 201
    print(json.dumps([number, jobs.scheduler.get(f"order/{number}").due_at]))
"""


@contextmanager
def running(command, folder, environment, ready):
    """
    Run *command* in a process group until the block ends.

    Yield the part of the command's log that matches *ready*.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            found = next((match for line in process.stdout if (match := re.search(ready, line))), None)
            assert found is not None, "it ended before it was ready"
            threading.Thread(target=process.stdout.read, daemon=True).start()  # so that the pipe is never full
            yield found
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def check(due, ran):
    """
    Check that every order was cancelled, and that none was cancelled before its due time.
    """
    assert {number for number, _ in ran} == due.keys()
    assert [number for number, at in ran if at * 1000 < due[number] - 1] == []


@pytest.mark.needs("os.fork")
@pytest.mark.parametrize(
    ("module", "text", "command", "ready"),
    [
        ("fastapi", FASTAPI, ["uvicorn", "killed:app", "--port", "0"], r"running on http://127.0.0.1:(\d+)"),
        ("flask", FLASK, ["gunicorn", "-w", "2", "-b", "127.0.0.1:0", "killed:app"], r"http://127.0.0.1:(\d+)"),
        ("flask", FLASK, ["gunicorn", "--preload", "-b", "127.0.0.1:0", "killed:app"], r"http://127.0.0.1:(\d+)"),
    ],
    ids=["fastapi", "flask", "flask-preload"],
)
def test_an_application_that_is_killed(tmp_path, until, module, text, command, ready):  # noqa: PLR0917 fixtures
    """
    If the application is killed, each acknowledged order is still cancelled.
    """
    for needed in (module, command[0]):
        pytest.importorskip(needed, reason=f"{needed} is not installed: pip install {needed}")
    (tmp_path / "killed.py").write_text(text)
    path = f"{EXAMPLES}{os.pathsep}{tmp_path}"
    environment = {**os.environ, "JOBS": f"sqlite:///{tmp_path / 'jobs.db'}", "PYTHONPATH": path}
    command = [sys.executable, "-m", *command]
    log, due = tmp_path / "ran", {}
    with running(command, tmp_path, environment, ready) as found:
        for number in range(ORDERS):
            address = f"http://127.0.0.1:{found[1]}/orders/{number}?minutes={0.02 + number / 1200}"
            with urllib.request.urlopen(urllib.request.Request(address, method="POST"), timeout=30) as answer:
                due[number] = json.load(answer)["cancelled_at"]
        until(log.exists)

    def ran():
        lines = log.read_text().splitlines()
        return [(int(number), float(at)) for number, at in (line.split() for line in lines)]

    with running(command, tmp_path, environment, ready):
        until(lambda: len({number for number, _ in ran()}) == ORDERS)
    check(due, ran())


def test_a_worker_of_django_that_is_killed(tmp_path, until):
    """
    If `manage.py tickwheel` is killed, all orders are still cancelled, as each was committed together with its job.
    """
    pytest.importorskip("django", reason="Django is not installed: pip install django")
    environment = {**os.environ, "SHOP": str(tmp_path), "PYTHONPATH": str(SHOP)}
    manage = [sys.executable, str(SHOP / "manage.py")]
    subprocess.run([*manage, "migrate"], env=environment, check=True, capture_output=True, timeout=300)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.executescript(TRIGGER)

    def ran():
        return shop.execute("SELECT number, at FROM ran").fetchall()

    with running([*manage, "tickwheel"], tmp_path, environment, "tickwheel fires"):
        done = subprocess.run(
            [*manage, "shell", "-c", PLACE % ORDERS], env=environment, check=True, capture_output=True, timeout=300
        )
        until(ran)
    with running([*manage, "tickwheel"], tmp_path, environment, "tickwheel fires"):
        until(lambda: len(ran()) >= ORDERS)
    check(dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"[")), ran())
    assert shop.execute("SELECT DISTINCT state FROM shop_order").fetchall() == [("cancelled",)]
    shop.close()
