"""
Starts, stops and restarts of a server, and starts that fail.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import forked_cli
import pytest

from tickwheel.scheduler import Scheduler

STOP_BOUND_S = 30  # a stop takes at most 1.5 s, an obstacle lasts 60 s, and a busy machine may stall


SLOW = """
import sys
import threading

def register(scheduler):
    @scheduler.handler("slow")
    def slow(payload):
        sys.stdout.write("slow begun\\n")  # in one piece: print() lets the server's own lines in before the end
        threading.Event().wait(60)
"""


def serve(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    """
    Run `tickwheel serve` with arguments that make the start fail.
    """
    process = forked_cli.start(["serve", "--port", "0", *arguments], cwd=folder, env=os.environ)
    with process.stdout, process.stderr:
        errors = process.stderr.read()
        return subprocess.CompletedProcess(arguments, process.wait(60), process.stdout.read(), errors)


def check_refusal(answer, code: int, *parts: str) -> None:
    """
    Check that the command ended with *code* and printed a single line that contains all *parts*.
    """
    assert answer.returncode == code, answer.stderr
    assert answer.stderr.count("\n") == 1, answer.stderr
    assert answer.stderr.startswith("tickwheel: ")
    for part in parts:
        assert part in answer.stderr


def test_the_start_prints_an_address_and_a_command(start):
    """
    The server prints the address of the page, and a curl command that sets a job. It also prints the job's firing.
    """
    server = start()
    line = server.line_with("curl ")
    assert f"http://127.0.0.1:{server.port}/v1/jobs/" in line
    curl = line.partition("try ")[2].strip()
    subprocess.run(["sh", "-c", f"{curl} --silent --fail"], check=True, capture_output=True, timeout=30)
    assert '"hello"' in server.line_with("fired ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stops_in_time(start, number):
    """
    A stop ends within its time limit and with exit code 0, even if a page and idle connections are open.
    """
    server = start()
    live = socket.create_connection((server.host, server.port))
    live.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert live.recv(100).startswith(b"HTTP/1.1 200")
    idle = socket.create_connection((server.host, server.port))
    begin = time.monotonic()
    assert server.stop(number) == 0
    assert time.monotonic() - begin < STOP_BOUND_S
    assert "stopped\n" in server.lines
    live.close()
    idle.close()


def test_stops_in_time_while_a_handler_runs(start, tmp_path):
    """
    If a handler does not end within the time limit, the stop does not wait for it, and the job still exists later.
    """
    (tmp_path / "slow.py").write_text(SLOW)
    server = start("--handlers", "slow")
    server.job("PUT", "sleeper", {"delay": 0, "handler": "slow"})
    server.line_with("slow begun")
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < STOP_BOUND_S
    assert "sleeper/" in server.errors[-1]  # the warning names the interrupted job
    again = start("--handlers", "slow")
    again.line_with("slow begun")


def test_a_stop_lets_handlers_end(start, tmp_path):
    """
    A stop waits up to `--stop-timeout` for a running handler.

    If the handler ends in this time, its job is done.
    """
    (tmp_path / "slow.py").write_text(SLOW.replace("wait(60)", "wait(0.5)"))
    server = start("--handlers", "slow", "--stop-timeout", "1m", environment={"TICKWHEEL_STOP_TIMEOUT": "0"})
    server.job("PUT", "sleeper", {"delay": 0, "handler": "slow"})
    server.line_with("slow begun")
    assert server.stop(signal.SIGTERM) == 0
    assert "sleeper" not in "".join(server.errors)
    assert start().job("GET", "sleeper").status == 404


def test_jobs_survive_a_restart(start):
    """
    Jobs that were set before a stop are unchanged after the next start, and fire.
    """
    server = start()
    far = server.job("PUT", "far", {"delay": 3600, "target": "log", "payload": [1]}).json["job"]
    soon = server.job("PUT", "soon", {"delay": 1, "target": "log"}).json["job"]
    assert server.stop() == 0
    again = start()
    assert again.job("GET", "far").json == far
    again.line_with('fired "soon"')
    assert soon["state"] == "pending"


def test_jobs_survive_a_kill(start):
    """
    Jobs acknowledged before kill -9 exist after the next start.
    """
    server = start()
    jobs = [server.job("PUT", f"k{n}", {"delay": 3600, "target": "log"}).json["job"] for n in range(20)]
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    again = start()
    assert [again.job("GET", f"k{n}").json for n in range(20)] == jobs


def test_second_server_on_the_same_file(start, tmp_path):
    """
    If another server already fires the jobs of the file, the start fails with a message of one line.

    The first server continues.
    """
    server = start()
    check_refusal(serve(tmp_path), 6, "tickwheel.db")
    assert server.ask("GET", "/readyz").status == 200


def test_a_file_that_is_gone_for_a_while(start, tmp_path, until):
    """
    If the file of a service is moved away, the service is not ready until the file is back.
    """
    server = start("--store", "sqlite:///gone.db")
    path = tmp_path / "gone.db"
    path.rename(tmp_path / "elsewhere")
    until(lambda: server.ask("GET", "/readyz").status == 503)
    assert server.ask("GET", "/healthz").status == 200
    text = server.ask("GET", "/metrics").body.decode()
    assert "\ntickwheel_shards_owned 0.0\n" in text
    assert "\ntickwheel_lateness_seconds_count 0.0\n" in text, "the process's own figures are there"
    for _ in range(3):
        assert server.job("PUT", "meanwhile", {"delay": 0, "target": "log"}).status == 503
    until(lambda: sum("is answered with 503" in line for line in server.errors) == 1)
    (tmp_path / "elsewhere").rename(path)
    until(lambda: server.ask("GET", "/readyz").status == 200)
    assert "\ntickwheel_shards_owned 1.0\n" in server.ask("GET", "/metrics").body.decode()
    server.job("PUT", "after", {"delay": 0, "target": "log"})
    until(lambda: server.job("GET", "after").status == 404)


def test_port_in_use(start, tmp_path):
    """
    If the port is in use, the start fails with a message of one line that names the port.
    """
    server = start()
    check_refusal(
        serve(tmp_path, "--store", "sqlite:///other.db", "--port", str(server.port)), 8, str(server.port), "in use"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "no.such.host.invalid", "192.0.2.1"])  # noqa: S104  it is to be refused
def test_public_address_without_a_token(tmp_path, host):
    """
    If other machines can reach the address, the start fails unless there is a token.
    """
    check_refusal(serve(tmp_path, "--host", host), 10, repr(host), "token")
    assert not (tmp_path / "tickwheel.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert('{trace_id}')",
        "https://traces.example.com/",
        "traces/{trace_id}",
        "https:///{trace_id}",
        "http://[{trace_id}",
    ],
)
def test_invalid_address_of_traces(tmp_path, url):
    """
    If the page could not link to the given address of a trace viewer, the start fails with a message of one line.
    """
    check_refusal(serve(tmp_path, "--trace-url", url), 2, repr(url), "{trace_id}, such as")


def test_the_page_gets_the_address_of_traces(start):
    """
    The page's stream contains the address of the trace viewer.
    """
    url = "https://traces.example.com/{trace_id}"
    with start("--trace-url", url).live() as live:
        name, data = live.event()
    assert (name, data["trace_url"]) == ("stats", url)


def test_an_address_of_another_machine(tmp_path, monkeypatch):
    """
    If the address belongs to another machine, the start fails with a message of one line, even with a token.
    """
    monkeypatch.setenv("TICKWHEEL_WRITE_TOKEN", "secret")
    answer = serve(tmp_path, "--host", "192.0.2.1")
    check_refusal(answer, 8, "192.0.2.1")
    assert "secret" not in answer.stderr


@pytest.mark.parametrize(
    "content",
    [b"this is not a database, but it is a file with some text in it\n" * 100, b"SQLite format 3\0" + b"\xff" * 5_000],
)
def test_a_file_that_is_not_a_database(tmp_path, content):
    """
    If the file is not a store, the start fails with a message of one line that names the file.

    The file stays unchanged.
    """
    (tmp_path / "tickwheel.db").write_bytes(content)
    check_refusal(serve(tmp_path), 7, "tickwheel.db")
    assert (tmp_path / "tickwheel.db").read_bytes() == content


def test_a_store_in_a_missing_folder(tmp_path):
    """
    If the store cannot be created, the start fails with a message of one line.
    """
    check_refusal(serve(tmp_path, "--store", "sqlite:///none/tickwheel.db"), 7, "none/tickwheel.db")


@pytest.mark.parametrize("store", ["", "nonsense", "mysql://localhost/x", "sqlite://", "sqlite:///"])
def test_a_url_that_names_no_store(tmp_path, store):
    """
    If a URL does not name a store, the start fails with a message of one line.
    """
    answer = serve(tmp_path, "--store", store)
    check_refusal(answer, answer.returncode, repr(store)[1:-1] or "store")
    assert answer.returncode in (2, 7)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (None, "No module named"),
        ("", "register"),
        ("register = 5", "register"),
        ("def register(", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("def register(_): 1 / 0", "'register' raised ZeroDivisionError"),
    ],
)
def test_modules_without_handlers(tmp_path, source, part):
    """
    If a module of handlers cannot be imported, or registers no handler, the start fails with the reason.
    """
    if source is not None:
        (tmp_path / "mine.py").write_text(source)
    check_refusal(serve(tmp_path, "--handlers", "mine"), 2, "mine", part)


def test_tokens(start):
    """
    If the service has tokens, a request needs one, except for the page's files and the health check.

    Read tokens allow reads. Write tokens allow reads and writes.
    """
    server = start(environment={"TICKWHEEL_READ_TOKEN": "r" * 40, "TICKWHEEL_WRITE_TOKEN": "w" * 40})
    read, write = {"authorization": "Bearer " + "r" * 40}, {"authorization": "bearer " + "w" * 40}
    wrong = {"authorization": "Bearer " + "x" * 40}
    body = {"delay": 3600, "target": "log"}
    for headers, get, put in (({}, 401, 401), (wrong, 401, 401), (read, 404, 403), (write, 404, 201)):
        assert server.job("GET", "a", None, headers).status == get
        assert server.job("PUT", "a", body, headers).status == put
    for path in ("/v1/jobs", "/v1/stats", "/v1/live", "/metrics", "/v1/firings", "/v1/forecast"):
        answer = server.ask("GET", path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    for path in ("/", "/healthz", "/readyz", "/static/main.js"):
        assert server.ask("GET", path).status == 200
    for number in range(1, 10):
        assert server.ask("GET", "/v1/stats", headers={"authorization": "Basic " + "w" * number}).status == 401


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("admin " + "0" * 64, "line 1"),
        ("read 123", "line 1"),
        (None, "cannot be read"),
        ("\xff", "cannot be read"),
        ("", "it has no token"),
        ("# read " + "0" * 64, "it has no token"),
    ],
)
def test_bad_token_file(tmp_path, content, part):
    """
    If the token file is unreadable, the start fails with a message that shows no part of the file.
    """
    if content is not None:
        (tmp_path / "tokens").write_bytes(content.encode("latin-1"))
    answer = serve(tmp_path, "--tokens", "tokens")
    check_refusal(answer, 2, "tokens", part)
    assert "0" * 64 not in answer.stderr


def test_the_timeout_of_all_handlers(start, tmp_path):
    """
    `--handler-timeout` is the timeout of all handlers that have no timeout of their own.
    """
    (tmp_path / "slow.py").write_text(SLOW)
    server = start("--handlers", "slow", "--handler-timeout", "200ms")
    server.job("PUT", "sleeper", {"delay": 0, "handler": "slow"})
    server.line_with("slow begun")
    server.line_with("slow begun")  # starts the next attempt
    (leaked,) = server.ask("GET", "/v1/stats").json["leaked"]
    assert leaked.pop("count") >= 1
    assert leaked == {"target": "handler", "handler": "slow", "executor": "thread"}


TROUBLE = """
import logging
import threading
import warnings

def register(scheduler):
    warnings.warn("this is old")
    logging.getLogger("app").warning("of a list", extra={"facts": ["x"]})
    logging.getLogger("app").warning("of a dict", extra={"facts": {"message": "another", "time": 1}})
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
"""


def test_a_log_in_json(tmp_path):
    """
    With `--log-json`, each line of stderr is a JSON document, including warnings and errors.
    """
    (tmp_path / "trouble.py").write_text(TROUBLE)
    with contextlib.closing(Scheduler(f"sqlite:///{tmp_path}/tickwheel.db")) as scheduler:
        scheduler.set("tea\n", delay=0, target="log", handler="kitchen", payload={"cups": 2})
    command = [sys.executable, "-m", "tickwheel.cli", "serve", "--port", "0", "--log-json", "--handlers", "trouble"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "."},
    )
    lines, messages = [], []
    with process:
        while line := process.stderr.readline():
            lines.append(json.loads(line))
            messages.append(lines[-1]["message"])
            if messages[-1] in ("fired", "serving") and {"fired", "serving"} <= set(messages):
                process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert {"serving", "fired", "stopped", "a thread ended by an error"} <= set(messages)
    assert any("this is old" in message for message in messages)
    assert lines[messages.index("of a list")]["logger"] == "app"
    assert lines[messages.index("of a dict")]["time"] != 1
    fired = lines[messages.index("fired")]
    assert (fired["key"], fired["handler"], fired["payload"]) == ("tea\n", "kitchen", {"cups": 2})
    assert lines[messages.index("serving")]["page"].startswith("http://127.0.0.1:")


def test_json_refusal(tmp_path):
    """
    With `--log-json`, an error before the server starts is also a JSON document, and contains the exit code.
    """
    answer = serve(tmp_path, "--log-json", "--host", "::")
    (line,) = answer.stderr.splitlines()
    assert answer.stdout == ""
    assert json.loads(line)["exit_code"] == answer.returncode == 10
    assert "::" in json.loads(line)["message"]
