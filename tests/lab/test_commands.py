"""
`tickwheel lab` as a user runs it.
"""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tickwheel.cli import app
from tickwheel.lab.trace import read_trace

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """
    Return a function that runs `tickwheel lab` in the test's folder, without a terminal.
    """

    def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tickwheel.cli", "lab", *arguments]
        answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer

    return run_command


def generated(run: Run) -> None:
    answer = run("generate", "connections", "trace.csv.gz", "--seconds", "30", "--size", "20", "--seed", "4")
    assert answer.returncode == 0
    assert answer.stdout.endswith("operations in trace.csv.gz\n")


def test_generate_and_replay(run: Run, tmp_path: Path) -> None:
    """
    If all designs of wheels replay the same generated trace, their counts are equal.
    """
    generated(run)
    answer = run("replay", "trace.csv.gz", "--json")
    assert answer.returncode == 0
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [row["wheel"].split(":")[0] for row in rows] == [
        *["native", "heap", "single", "rounds", "hierarchical", "cascading", "calendar"]
    ]
    outcomes = {tuple(row[name] for name in ("set", "move", "cancel", "fire", "peak_pending")) for row in rows}
    assert len(outcomes) == 1
    sets = sum(operation.op == "S" for operation in read_trace(tmp_path / "trace.csv.gz"))
    assert rows[0]["set"] + rows[0]["move"] == sets
    assert {row["late_max_s"] for row in rows[:2]} == {0}


def test_replay_as_lines(run: Run) -> None:
    """
    Without a terminal, a replay prints one line for each design, with columns that are separated by tabs.
    """
    generated(run)
    answer = run("replay", "trace.csv.gz", "--wheel", "heap", "--wheel", "rounds:tick=0.5")
    lines = [line.split("\t") for line in answer.stdout.splitlines()]
    assert [line[:2] for line in lines] == [["trace", "heap"], ["trace", "rounds:tick=0.5,slots=256"]]
    assert lines[0][2:9] == lines[1][2:9]


def test_tune(run: Run) -> None:
    """
    The command advises a tick and numbers of slots, and gives reasons, as text or as JSON.
    """
    generated(run)
    text = run("tune", "trace.csv.gz").stdout
    assert "pending at the peak" in text
    assert "hierarchical:tick=0.2,slots=64\ta tick of 200 ms is at most 1 % of the delays" in text
    facts, *advice = map(json.loads, run("tune", "trace.csv.gz", "--json").stdout.splitlines())
    assert facts["facts"]["longest_us"] == 30_000_000
    assert [row["design"] for row in advice][:3] == ["native", "heap", "single"]


def test_compare(run: Run, tmp_path: Path) -> None:
    """
    A comparison prints a line for each case, and writes a file with its figures and a page.
    """
    generated(run)
    options = ["--pending", "50,1k", "--steps", "2000", "--wheel", "heap", "--wheel", "native"]
    answer = run("compare", "trace.csv.gz", *options, "--report", "report.html", "--json", "figures.json")
    assert answer.returncode == 0
    assert [line.split("\t")[0] for line in answer.stdout.splitlines()] == ["heap", "native"] * 2
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert [(row["design"], row["size"]) for row in rows] == [
        *[("heap", 50), ("native", 50), ("heap", 1_000), ("native", 1_000)]
    ]
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_watch(run: Run, tmp_path: Path) -> None:
    """
    `watch` writes a page, on which the wheel is small enough to be watched.
    """
    generated(run)
    answer = run("watch", "trace.csv.gz", "--wheel", "cascading", "--out", "page.html", "--frames", "50")
    assert answer.stdout == "cascading:tick=0.05 beside heap in page.html\n"
    assert "cascading:tick=0.05" in (tmp_path / "page.html").read_text()


def test_a_replay_prints_each_design_when_it_is_done(run: Run, tmp_path: Path) -> None:
    """
    The result of each design is printed before the next design starts.
    """
    (tmp_path / "good.csv").write_text("t_us,op,key,delay_us\n0,S,tea,60000000\n")
    answer = run("replay", "good.csv", "--wheel", "heap", "--wheel", "single:tick=1,slots=5")
    assert answer.stdout.startswith("good\theap\t1\t")
    assert "the span is 4 s" in answer.stderr


def test_watch_reads_only_the_beginning(run: Run, tmp_path: Path) -> None:
    """
    `watch` reads only the beginning of a trace.
    """
    lines = [f"{number},S,timer {number},50000" for number in range(2_000)]
    (tmp_path / "long.csv").write_text("\n".join(["t_us,op,key,delay_us", *lines, "not a line"]))
    answer = run("watch", "long.csv", "--wheel", "heap", "--frames", "50")
    assert (answer.returncode, answer.stdout) == (0, "heap beside hierarchical:tick=0.0002,slots=16 in watch.html\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["replay", "absent.csv"], "absent.csv, line 1: cannot be read: No such file or directory"),
        (["replay", "bad.csv"], "bad.csv, line 3: t_us is 4, after 5: expected times that never go back"),
        (["tune", "columns.csv"], "columns.csv, line 1: expected the columns t_us, op, key, delay_us; key is missing"),
        (["replay", "cut.csv.gz"], "cut.csv.gz, line "),
        (["replay", "good.csv", "--wheel", "square"], "wheel 'square': expected one of native, heap, "),
        (["replay", "good.csv", "--wheel", "rounds:tick=0"], "tick is 0.0: pass a positive, finite number of seconds"),
        (["replay", "good.csv", "--wheel", "rounds:slots=1"], "slots is 1: pass an integer, 2 or more"),
        (["replay", "good.csv", "--wheel", "single:tick=1,slots=5"], "to 60 s, and the span is 4 s: at this tick it"),
        (["watch", "good.csv", "--wheel", "native:tick=1"], "no option 'tick': expected none"),
        (["watch", "good.csv", *("--wheel", "heap") * 3], "--wheel is given 3 times: give the two designs that"),
        (["compare", "good.csv", "--pending", "many"], "'many': expected numbers such as 1k,100k,1M"),
        (["compare", "good.csv", "--steps", "0"], "0 is not in the range"),
        (["compare", "good.csv", "--json", "none/x"], "'none/x' cannot be written"),
        (["generate", "rain", "x.csv"], "'rain' is not one of"),
        (["generate", "heartbeats", "x.csv", "--seconds", "0"], "'0' is too short: write more than 0 s"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    problem: str,
) -> None:
    """
    If an argument is invalid, the command prints one line with a remedy and exits with 2.
    """
    header = "t_us,op,key,delay_us\n"
    (tmp_path / "good.csv").write_text(header + "0,S,a,60000000\n")
    (tmp_path / "bad.csv").write_text(header + "5,S,a,60\n4,S,a,60\n")
    (tmp_path / "columns.csv").write_text("t_us,op,delay_us\n")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(f"{header}0,S,a,60\n".encode() * 50)[:-10])
    monkeypatch.chdir(tmp_path)
    assert app.run(("lab", *arguments)) == 2
    out, errors = capsys.readouterr()
    assert problem in errors
    assert out == ""
