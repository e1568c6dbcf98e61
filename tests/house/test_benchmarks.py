"""
The benchmarks run.

They measure, compute ratios, and write the results.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from shutil import which

import pytest


@pytest.fixture(scope="module")
def model(root):
    """
    Return the module `benchmarks.model`.

    It is beside the package, not inside it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root))
        import benchmarks.model  # noqa: PLC0415 - it can only be imported from here

        yield benchmarks.model


def row(subject, value, pending=1000):
    return {"work": "set", "subject": subject, "pending": pending, "value": value, "unit": "ns", "clock": "cpu"}


def test_a_ratio_is_computed_from_rows(model):
    """
    The ratio of a bar (an expected ratio) is the value of another library divided by tickwheel's value.

    There is one ratio for each number of pending timers.
    """
    rows = [row("asyncio", 1200), row("tickwheel", 100), row("asyncio", 900, 5), row("tickwheel", 100, 5)]
    verdicts = model.Bar("set", against="asyncio", at_least=10).judge(rows)
    assert [(each.pending, each.figure, each.is_met) for each in verdicts] == [(1000, 12.0, True), (5, 9.0, False)]


def test_a_bar_without_rows_gives_no_verdict(model):
    """
    If the other library of a bar (an expected ratio) was not measured, the bar gives no verdict.
    """
    assert model.Bar("set", against="rloop", at_least=2).judge([row("tickwheel", 100)]) == []


def test_a_bar_judges_one_population_against_another(model):
    """
    A bar (an expected ratio) can compare two measurements of tickwheel with different numbers of timers.

    It gives one verdict.
    """
    rows = [row("tickwheel", 70, 10), row("tickwheel", 100, 1), row("tickwheel", 90, 5)]
    bar = model.Bar("set", against="tickwheel", pending=10, against_pending=1, inverse=True, at_least=0.8)
    assert [(each.pending, each.figure, each.is_met) for each in bar.judge(rows)] == [(10, 0.7, False)]


def test_a_limit_is_met_exactly_at_it(model):
    """
    A figure that equals its limit meets the bar (the expected value).

    A larger figure does not.
    """
    bar = model.Bar("set", at_most=80)
    assert [bar.judge([row("tickwheel", value)])[0].is_met for value in (80, 80.1)] == [True, False]


@pytest.mark.parametrize("subject", ["asyncio", "heapq", "tickwheel", "tickwheel-asyncio", "uvloop", "rloop"])
@pytest.mark.parametrize("work", ["call_later+cancel", "reschedule", "set+fire", "longest pause", "lateness"])
def test_every_timer_work_runs(root, subject, work):
    """
    Each benchmark of timers runs to its end with each library, and loses no timer.
    """
    if subject in {"uvloop", "rloop"} and find_spec(subject) is None:
        pytest.skip(f"{subject} is not installed: requirements/bench.txt brings it")
    case = {"module": "benchmarks.timers", "work": work, "subject": subject, "pending": 200}
    settings = {"lateness": {"count": 500}, "longest pause": {}}.get(work, {"chunks": 3})
    command = [sys.executable, "-m", "benchmarks.run", json.dumps(case | {"settings": settings})]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    measures = {measure["work"]: measure["value"] for measure in json.loads(answer.stdout)}
    assert work in measures or f"{work} p50" in measures
    assert measures.get("lost", 0) == 0


@pytest.mark.parametrize("subject", ["tickwheel", "Node setTimeout"])
@pytest.mark.parametrize("work", ["pending", "fire", "lateness"])
def test_works_are_the_same_in_other_languages(root, subject, work):
    """
    The benchmarks in other languages run, if they need no compiler.

    They measure the same things as the benchmarks in Python.
    """
    if subject != "tickwheel" and not which("node"):
        pytest.skip("there is no node")
    case = {"module": "benchmarks.peers", "work": work, "subject": subject, "pending": 200}
    command = [sys.executable, "-m", "benchmarks.run", json.dumps(case)]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    measures = {measure["work"]: measure["value"] for measure in json.loads(answer.stdout)}
    wanted = {
        "pending": {"idle second", "wake-ups", "set+cancel", "restart", "move", "move, cold"},
        "fire": {"set+fire"},
        "lateness": {"lateness p50", "lateness p99", "early", "lost"},
    }
    assert set(measures) == wanted[work]
    assert measures.get("lost", 0) == 0


def test_a_peer_without_its_toolchain_is_named(root, tmp_path):
    """
    Without a compiler, tickwheel is still measured.

    Each other library that cannot be measured is named with the reason.
    """
    code = "from benchmarks import peers; print({case.subject for case in peers.cases(quick=True)})"
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, cwd=root, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert answer.stdout == "{'tickwheel'}\n"
    assert "Kafka: not measured: java is not installed\n" in answer.stderr
    assert "tokio Sleep: not measured: cargo is not installed\n" in answer.stderr


@pytest.mark.parametrize("subject", ["bare-sql", "in-order", "tickwheel"])
def test_the_size_of_far_jobs_is_measured(root, subject):
    """
    If far jobs are set, moved and cancelled, the bytes written for each operation are reported.

    The disk space of a job is reported, too.
    """
    case = {"module": "benchmarks.durable", "work": "far sets", "subject": subject, "pending": 2_000}
    command = [sys.executable, "-m", "benchmarks.run", json.dumps(case | {"settings": {"count": 2_000}})]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    measures = {measure["work"]: measure["value"] for measure in json.loads(answer.stdout)}
    assert measures["far sets: written"] > 2 * 150  # to the log, and from there to the file
    assert measures["far moves: written"] > 0
    assert measures["far cancels: written"] > 0
    assert 150 < measures["disk per pending job"] < 1_000


def test_the_share_beside_bare_sql_is_measured(root):
    """
    The benchmark reports the cost of bare SQL as a share of tickwheel's cost for the same jobs. The share is below 1.
    """
    case = {"module": "benchmarks.durable", "work": "shares", "subject": "tickwheel", "pending": 200}
    command = [sys.executable, "-m", "benchmarks.run", json.dumps(case | {"settings": {"count": 200}})]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    measures = {measure["work"]: measure["value"] for measure in json.loads(answer.stdout)}
    for name in ("due at once", "spread over 2 s"):
        work = f"bare SQL over cycle, {name}"
        assert 0 < measures[f"{work}: bare"] < measures[f"{work}: ours"]
        assert 0 < measures[work] < 1
    assert 0 <= measures["collector's share of a cycle, in percent"] < 100


def test_a_figure_without_a_limit_is_not_said_to_be_met(model, capsys):
    """
    The report prints "met" or "MISSED" only for a figure with a limit.
    """
    from benchmarks.report import print_bars  # noqa: PLC0415 - it can only be imported once the model can

    bars = [model.Bar("set"), model.Bar("set", at_most=80), model.Bar("set", at_most=200)]
    print_bars([verdict.as_dict() for bar in bars for verdict in bar.judge([row("tickwheel", 100)])])
    assert [line[2:8].strip() for line in capsys.readouterr().out.splitlines()[2:]] == ["", "MISSED", "met"]


@pytest.mark.parametrize(
    ("work", "subject", "settings"),
    [
        ("pending", "tickwheel", {}),
        ("churn", "tickwheel", {"seconds": 5}),
        ("cost", "tickwheel", {"seconds": 2}),
        ("staged", "tickwheel", {}),
        pytest.param(
            "owners",
            "tickwheel-redis-cluster",
            {"rounds": 2, "jobs": 2_000, "counts": [2]},
            marks=pytest.mark.skipif(not which("redis-server"), reason="there is no redis-server"),
        ),
    ],
)
def test_every_work_of_scale_runs(root, work, subject, settings):
    """
    Each benchmark of `benchmarks.scale` runs to its end, and gives the expected figures.
    """
    case = {"module": "benchmarks.scale", "work": work, "subject": subject, "pending": 2_000, "settings": settings}
    command = [sys.executable, "-m", "benchmarks.run", json.dumps(case)]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=False)
    assert answer.returncode == 0, answer.stderr
    measures = {measure["work"]: measure["value"] for measure in json.loads(answer.stdout)}
    expected = {
        "pending": {"set", "disk per pending job", "restart", "page by handler", "bulk cancel", "drain"},
        "churn": {"database at the end", "memory at the end", "fired"},
        "cost": {"kept for each pending job", "job at the rate, client", "written for each job at the rate"},
        "staged": {"memory of a staged job", "staging of a job"},
        "owners": {"clients, 2 owners", "server, 2 owners"},
    }
    assert min(measures[name] for name in expected[work]) > 0


@pytest.mark.skipif(not (which("chromium") and which("chromedriver")), reason="there is no chromium")
def test_the_page_is_watched(root):
    """
    A browser measures the frames and tasks of the service's page while jobs wait and other jobs fire.
    """
    pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    case = {"module": "benchmarks.page", "work": "the page", "subject": "tickwheel", "pending": 2_000}
    command = [sys.executable, "-m", "benchmarks.run", json.dumps(case | {"settings": {"warm_s": 1, "watch_s": 2}})]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    measures = {measure["work"]: measure["value"] for measure in json.loads(answer.stdout)}
    assert 0 < measures["frame p50"] <= measures["frame p95"] <= measures["frame max"]
    assert measures["first paint"] > 0
    assert measures["fired"] > 0


def test_the_program_writes_rows_and_bars(root, tmp_path):
    """
    `python -m benchmarks` prints a table and writes machine, versions, measurements and bars (expected ratios).
    """
    file = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks", "durable", "--quick", "--reps", "1", "--json", str(file)]
    command += ["--work", "lateness", "--subject", "tickwheel"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(file.read_text("utf-8"))
    assert {"machine", "versions", "conditions", "rows", "bars"} <= set(found)
    assert set(found["rows"][0]) == {"work", "subject", "pending", "value", "unit", "clock", "reps"}
    assert "lateness p50" in answer.stdout


def test_one_table_of_all_pythons(root, tmp_path):
    """
    Each result file has a row with the ratio to asyncio for each kind of work.

    Missing measurements are marked.
    """
    rows = [
        {**row(subject, value, 100_000), "work": "set+fire"} for subject, value in (("asyncio", 900), ("tickwheel", 90))
    ]
    rows += [{**each, "clock": "wall", "value": 1} for each in rows]
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"versions": {"python": "CPython 3.15.0"}, "rows": rows}), "utf-8")
    command = [sys.executable, "-m", "benchmarks.pythons", str(file)]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "| CPython 3.15.0 | not measured | not measured | 10.0 (90 ns) |"
