"""
The commands on a service, whose address is given in place of a store's URL.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from urllib.request import Request, urlopen
from zoneinfo import ZoneInfo

import pytest
from years import YEAR

from tickwheel.cli import watch
from tickwheel.cli.exits import ExitCode
from tickwheel.scheduler import Scheduler

TOKEN = "t" * 40


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """
    Return the address of a service that requires a token.
    """
    command = [sys.executable, "-P", "-m", "tickwheel.cli", "serve", "--port", "0"]
    environment = os.environ | {"TICKWHEEL_WRITE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    folder = tmp_path_factory.mktemp("served")
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        watch = threading.Timer(600, server.kill)  # time limit for all tests of this module
        watch.start()
        page = next(line for line in server.stdout if line.startswith("page"))
        yield page.split()[1].rstrip("/")
        server.terminate()
        server.communicate()
        watch.cancel()


@pytest.fixture
def ask(run, url, monkeypatch):
    """
    Return a function that runs a command on the service, with the token in the environment.
    """
    monkeypatch.setenv("TICKWHEEL_TOKEN", TOKEN)
    monkeypatch.setenv("TICKWHEEL_STORE", url)
    return run


def test_life_of_a_job(ask):
    """
    A job is set, shown, moved, listed, run and cancelled, as in a store.
    """
    answer = ask("set", "tea", "--delay", "1h", "--target", "log", "--payload", '{"cups": 2}')
    assert (answer.returncode, answer.stdout[:17]) == (0, "created tea, due "), answer.stderr
    assert ask("move", "tea", "--delay", "3h").stdout.startswith("moved tea")
    facts = json.loads(ask("get", "tea", "--json").stdout)
    assert (facts["state"], facts["payload"], facts["generation"] > 1) == ("pending", {"cups": 2}, True)
    assert "tea\tpending\t" in ask("list").stdout
    assert ask("cancel", "tea", "--if-generation", "1").returncode == ExitCode.WRONG_GENERATION
    assert ask("cancel", "tea").stdout == "cancelled tea\n"
    assert ask("get", "tea").returncode == ExitCode.NOT_FOUND


def got(url, path):
    """
    Return the document that the service returns for *path*.
    """
    with urlopen(Request(url + path, headers={"authorization": f"Bearer {TOKEN}"}), timeout=60) as answer:  # noqa: S310 - the test's own service
        return json.load(answer)


def test_documents_are_those_of_the_service(ask, url):
    """
    With --json, jobs, histories and schedules have the same fields and values as in the HTTP API.
    """
    ask("set", "tea", "--at", f"{YEAR}-01-01T00:00:00.25Z", "--expires", "90s", "--target", "log", "--payload", "[1.5]")
    ask("set", "bell", "--cron", "0 9 * * *", "--target", "log", "--attempts", "3")
    ask("pause", "tea", "--note", "later")
    for key in ("tea", "bell"):
        assert json.loads(ask("get", key, "--json").stdout) == got(url, f"/v1/jobs/{key}")
    records = [json.loads(line) for line in ask("history", "tea", "--json").stdout.splitlines()]
    assert records == got(url, "/v1/jobs/tea:history")["records"]
    assert records
    schedules = [json.loads(line) for line in ask("schedule", "list", "--json").stdout.splitlines()]
    assert schedules == got(url, "/v1/schedules?count=3")["schedules"]
    assert [job["key"] for job in map(json.loads, ask("list", "--json").stdout.splitlines())] == ["bell", "tea"]
    for key in ("tea", "bell"):
        ask("cancel", key)


def test_watch(ask, url, monkeypatch):
    """
    `watch` shows the state and the events of a job, until the job no longer exists.
    """
    assert ask("watch", "watched").returncode == ExitCode.NOT_FOUND
    ask("set", "watched", "--delay", "1h", "--target", "log")
    with Scheduler(url) as scheduler:
        acts = iter(
            (
                lambda: scheduler.pause("watched", note="why"),
                lambda: scheduler.resume("watched"),
                lambda: scheduler.cancel("watched"),
            )
        )
        monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=lambda _: next(acts)()))
        answer = ask("watch", "watched")
    assert answer.returncode == 0, answer.stderr
    said = [line.split(", due")[0].partition(": by")[0] for line in answer.stdout.splitlines()]
    assert [line.split()[-1] if line[0].isdigit() else line for line in said] == [
        "pending",
        "paused",
        "paused",
        "resumed",
        "pending",
        "cancelled",
        "gone: it has run, or was cancelled",
    ]


def test_schedules_files_and_dead_letters(ask):
    """
    The commands for recurring jobs, exports, imports and dead letters work in the same way as with a store.
    """
    assert ask("import", "crontab", "-", "--prefix", "c/", stdin="0 9 * * * tea").stdout == "imported 1 job\n"
    assert "0 9 * * * in UTC" in ask("schedule", "list").stdout
    lines = ask("export", "c/").stdout
    key = json.loads(lines)["key"]
    assert ask("cancel", key).returncode == 0
    assert ask("import", "jsonl", "-", stdin=lines).stdout == "imported 1 job\n"
    assert ask("dead", "list").stdout == ""
    assert ask("cancel", key).returncode == 0


def test_doctor_and_top(ask, url):
    """
    `doctor` checks the service, and `top` shows the service.
    """
    shown = ask("top", "--once").stdout  # `top` of the service that the other commands use as a store
    assert "pending" in shown
    (node,) = json.loads(ask("top", "--url", url, "--once", "--json").stdout)["fleet"]["nodes"]
    found = ask("doctor").stdout
    assert "sqlite:///tickwheel.db: 0 pending" in found
    assert f"fired by\tok\t{node['owner']}\n" in found
    assert (node["state"], len(node["shards"])) == ("well", 1)
    assert node["owner"][:8] in shown
    assert "fired/s" in shown.partition("state")[2]


@pytest.fixture
def tokyo(monkeypatch):
    """
    Set the local zone to Tokyo, nine hours ahead of UTC.
    """
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield ZoneInfo("Asia/Tokyo")
    time.tzset()


def test_top_is_in_the_local_zone(ask, url, tokyo):
    """
    `top` shows the times of firings in the time zone of its own machine.
    """
    ask("set", "now", "--delay", "0", "--target", "log")
    while not (firings := got(url, "/v1/firings?limit=1")["firings"]):  # each check is one request
        pass
    fired_at = datetime.fromisoformat(firings[0]["fired_at"]).astimezone(tokyo)
    shown = ask("top", "--url", url, "--once").stdout
    assert "fired at (JST)" in shown
    assert f"\n{fired_at:%H:%M:%S}.{fired_at.microsecond // 1000:03}    now" in shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_top_is_as_wide_as_the_terminal(ask, url, monkeypatch, width):
    """
    No line of `top` is wider than the terminal, and no figure is broken or cut.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    ask("set", "a long key/" + "x" * 70, "--delay", "0", "--target", "log")
    while not got(url, "/v1/firings?limit=1")["firings"]:
        pass
    shown = ask("top", "--url", url, "--once").stdout
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for heading in (
        "pending  paused  running  dead",
        r"fired  failed  fired/s +late p50 +late p99 +late max",
        r"shards  fired/s +late p99  running  waiting",
        r"outcome +late",
    ):
        assert re.search(rf" *{heading}$", shown, re.MULTILINE), shown


def test_failures(ask, run, url, monkeypatch):
    """
    Each kind of failure has its own exit code, and its message has the remedy.
    """
    answer = ask("set", "k", "--delay", "1", "--handler", "absent")
    assert (answer.returncode, "no handler is named 'absent'" in answer.stderr) == (ExitCode.USAGE, True)
    answer = ask("set", "k", "--every", "1ms", "--target", "log")
    assert (answer.returncode, "--every-min" in answer.stderr) == (ExitCode.USAGE, True)
    for address in (url, url.replace("http", "HTTP")):
        answer = ask("serve", "--store", address)
        assert (answer.returncode, "is a service already" in answer.stderr) == (ExitCode.USAGE, True)
    monkeypatch.setenv("TICKWHEEL_TOKEN", "wrong")
    answer = ask("list")
    assert (answer.returncode, "TICKWHEEL_TOKEN" in answer.stderr) == (ExitCode.NO_ACCESS, True)
    assert "wrong" not in answer.stderr.replace(url, "")
    assert run("list", "--store", "http://user:secret@host").returncode == ExitCode.NO_STORE
    answer = ask("top", "--url", url)
    assert (answer.returncode, "TICKWHEEL_TOKEN" in answer.stderr) == (ExitCode.NO_ACCESS, True)


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (301, {"location": "https://timers.example.com/"}, "leads to 'https://timers.example.com/': write that"),
        (200, {"content-type": "text/html"}, "answers without a document: is this the right address?"),
    ],
)
def test_another_server(run, monkeypatch, status, headers, said):
    """
    If the server is not a tickwheel service, the command says so, and does not follow a redirect.
    """
    asked = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            for header in {**headers, "content-length": "0"}.items():
                self.send_header(*header)
            self.end_headers()

        def log_message(self, *_):
            pass

    monkeypatch.setenv("TICKWHEEL_TOKEN", TOKEN)
    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        for command in (("top", "--url"), ("list", "--store")):
            answer = run(*command, f"http://127.0.0.1:{server.server_port}")
            assert (answer.returncode, said in answer.stderr) == (ExitCode.NO_STORE, True), answer.stderr
        server.shutdown()
    assert [path.partition("?")[0] for path in asked] == ["/v1/stats", "/v1/jobs"]


def test_a_service_that_does_not_answer(run, monkeypatch):
    """
    If a service does not answer, the command ends with an exit code for this case.
    """
    monkeypatch.setattr("tickwheel.remote._core._TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    answer = run("list", "--store", f"http://127.0.0.1:{port}")
    assert (answer.returncode, "did not answer in 0.2 s" in answer.stderr) == (ExitCode.NO_ANSWER, True)
