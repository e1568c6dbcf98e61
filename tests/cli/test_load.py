"""
`tickwheel load` against a real service.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    """
    Serve an empty store in a separate process. Return the address of the service.
    """
    command = [sys.executable, "-m", "tickwheel.cli", "serve", "--port", "0", "--log-level", "error"]
    folder = tmp_path_factory.mktemp("served")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with contextlib.closing(process.stdout) as out:
            found = next(filter(None, (re.match(r"page +(http://\S+)/", line) for line in out)), None)
            assert found is not None, "the service did not come up"
            yield found[1]
            process.terminate()
            process.wait(30)


def test_stages(run, url, tmp_path: Path) -> None:
    """
    Each stage sends its requests at its own rate, and all requests are answered.

    After the run, no job of the load is pending.
    """
    arguments = ["--stage", "50:1s", "--stage", "100:500ms", "--due-within", "0.3s", "--seed", "7"]
    files = ["--report", "load.html", "--json", "load.json"]
    answer = run("load", url, *arguments, *files, "--threshold", "error_rate=0", "--threshold", "max=10s")
    assert answer.returncode == 0, answer.stderr
    rows = [line.split("\t") for line in answer.stdout.splitlines()]
    assert [row[0] for row in rows] == ["50/s for 1 s", "100/s for 0.5 s"]
    document = json.loads((tmp_path / "load.json").read_text())
    assert [stage["requests"] for stage in document["stages"]] == [50, 50]
    assert [stage["answered"] for stage in document["stages"]] == [50, 50]
    assert sum(stage["fired"] for stage in document["stages"]) > 0
    assert all(0 < stage["latency_s"]["p50"] <= stage["latency_s"]["max"] for stage in document["stages"])
    assert "<svg" in (tmp_path / "load.html").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(start, until, url, tmp_path: Path, number: int) -> None:
    """
    If a load is ended by Ctrl-C or SIGTERM, the figures of the finished part are printed, and no job is left.
    """

    def pending() -> int:
        with urllib.request.urlopen(f"{url}/v1/stats") as answer:  # noqa: S310 on loopback
            return json.load(answer)["pending"]

    files = ["--report", "load.html", "--json", "load.json"]
    process = start("load", url, "--stage", "50:1h", "--stage", "50:1h", "--due-within", "1h", "--cancels", "0", *files)
    until(pending)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    [stage] = json.loads((tmp_path / "load.json").read_text())["stages"]
    assert 0 < stage["answered"] == stage["requests"] < 3_600
    assert len(stage["by_second"]) < 3_600
    assert "<svg" in (tmp_path / "load.html").read_text()
    until(lambda: not pending())  # the service caches its stats for a moment


def test_a_missed_threshold_is_the_exit_code(run, url) -> None:
    """
    If a threshold is missed, the command prints it with the measured value and has a separate exit code.
    """
    answer = run("load", url, "--stage", "20:200ms", "--threshold", "p50=1ms", "--threshold", "p50=0")
    assert answer.returncode == 11
    assert re.search(r"p50 is [0-9.]+ m?s at 20 a second: at most 0 was asked for", answer.stderr)


def test_all_requests_are_refused(run, url) -> None:
    """
    If the service refuses all requests, the command says that it sustained no rate, and gives the reason.
    """
    answer = run("load", url, "--stage", "20:200ms", "--target", "nowhere", "--threshold", "p99=50ms")
    assert (answer.returncode, "no request was answered at 20 a second" in answer.stderr) == (11, True)
    assert re.search(r"^20 a second: 4 x status 422, .+: .+$", answer.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--stage", "500"], "'500' is not a stage: write requests a second and how long, as in 500:30s"),
        (["--stage", "0:30s"], "'0:30s' is not a stage"),
        (["--stage", "-5:30s"], "'-5:30s' is not a stage"),
        (["--stage", "5:never"], "'never' is not a duration"),
        (["--stage", "5:nan"], "'5:nan' is not a stage: it may last up to a day"),
        (["--threshold", "p98=1s"], "no figure 'p98': take one of p50, p90, p99,"),
        (["--threshold", "p99"], "'' is not a duration"),
        (["--threshold", "error_rate=2"], "expected a share in 0..1"),
        (["--moves", "0.8", "--cancels", "0.3"], "--moves 0.8 and --cancels 0.3 are more than all"),
        (["--due-within", "inf"], "--due-within is inf s: pass a positive, finite duration"),
        (["--json", "/no/such/x"], "'/no/such/x' cannot be written: name a file in a folder that is there, and yours"),
        (["--report", "none/x"], "'none/x' cannot be written"),
        (["http://nobody/x"], "'http://nobody/x' is not the address of a service"),
    ],
)
def test_bad_input(run, arguments: list[str], problem: str) -> None:
    """
    If an argument is invalid, the error has its value and a remedy, and no request is sent.
    """
    answer = run("load", *arguments)
    assert answer.returncode == 2
    assert problem in answer.stderr


def test_no_service_listens(run) -> None:
    """
    If no service listens at the address, the error has the address and a remedy.
    """
    answer = run("load", "http://127.0.0.1:1", "--stage", "5:1s")
    assert answer.returncode == 13
    assert "http://127.0.0.1:1: cannot be reached: start it with 'tickwheel serve'" in answer.stderr
