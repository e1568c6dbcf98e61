"""
Commands for operators: dead letters, schedules, tokens, the doctor, and shell completion.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import time
import zoneinfo
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest
from years import YEAR

from tickwheel.cli import doctor
from tickwheel.cli.exits import ExitCode
from tickwheel.scheduler import Scheduler
from tickwheel.service.tokens import Access, Tokens
from tickwheel.stores import Node


@pytest.fixture
def dead(tmp_path):
    """
    Return the keys of dead jobs in the test's store.
    """
    keys = ["dead/1", "dead/2", "other"]
    ended = []
    with Scheduler(f"sqlite:///{tmp_path}/tickwheel.db") as scheduler:

        @scheduler.handler("fails")
        def fails(_payload):
            message = "no luck"
            raise RuntimeError(message)

        scheduler.subscribe(lambda event: ended.append(event) if type(event).__name__ == "JobDied" else None)
        from tickwheel.scheduler import RetryPolicy  # noqa: PLC0415 only this test needs it

        for key in keys:
            scheduler.set(key, delay=0, handler="fails", retry=RetryPolicy(attempts=1))
        while len(ended) < len(keys):  # loops until the last job has died
            scheduler.stats()
    return keys


def test_dead_letters(run, dead):
    """
    Dead letters are listed with their errors and can be selected by prefix.

    They are replayed by key or by prefix.
    """
    lines = run("dead", "list", "dead/").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == dead[:2]
    assert all(line.endswith("RuntimeError: no luck") for line in lines)
    assert json.loads(run("dead", "list", "other", "--json").stdout)["state"] == "dead"
    answer = run("dead", "replay", "other", "none")
    assert (answer.returncode, answer.stdout) == (3, "replayed 1 job\n")
    assert "'none'" in answer.stderr
    answer = run("dead", "replay", dead[0], "none", "--json")
    (replayed,) = map(json.loads, answer.stdout.splitlines())
    assert (answer.returncode, replayed["outcome"], replayed["job"]["key"]) == (3, "replayed", dead[0])
    assert json.loads(run("dead", "replay", "--prefix", "", "--json").stdout)["changed"] == 1
    assert run("dead", "list").stdout == ""
    assert len(run("list", "--state", "pending").stdout.splitlines()) == 3


def test_incidents(run, dead):
    """
    Dead letters are grouped by error and can be searched.

    The dead letters of an incident are replayed at a given rate, the latest first.
    """
    (line,) = run("dead", "incidents").stdout.splitlines()
    fingerprint, letters, _, _, places, raised_in, error = line.split("\t")
    assert (letters, places, error) == ("3", "handler fails", "RuntimeError: no luck")
    assert raised_in == f"{__name__}.dead.<locals>.fails+3"
    assert run("dead", "incidents", "nothing").stdout == ""
    (found,) = map(json.loads, run("dead", "incidents", "DEAD/", "--json").stdout.splitlines())
    assert found["raised_in"] == raised_in
    assert (found["count"], sorted(found["keys"]), found["fingerprint"]) == (2, dead[:2], fingerprint)
    answer = run("dead", "replay", "--incident", fingerprint, "--limit", "2", "--rate", "0.01")
    assert answer.stdout == "replayed 2 jobs\n"
    assert len(run("list", "--state", "pending").stdout.splitlines()) == 2
    unknown = run("dead", "replay", "--incident", "none")
    assert (unknown.returncode, "'none'" in unknown.stderr) == (3, True)
    assert run("dead", "replay", "--prefix", "", "--rate", "0").returncode == 2


def test_a_replay_needs_keys_or_a_prefix(run, dead):
    """
    A replay needs either keys or a prefix, not both.
    """
    assert dead
    assert run("dead", "replay").returncode == 2
    assert run("dead", "replay", "other", "--prefix", "").returncode == 2


def test_run_now(run):
    """
    A job that is run now becomes due at once.
    """
    run("set", "a", "--delay", "1h", "--target", "log")
    before = json.loads(run("get", "a", "--json").stdout)["due_at"]
    assert run("run", "a").stdout.startswith("moved a, due ")
    assert json.loads(run("get", "a", "--json").stdout)["due_at"] < before
    assert run("run", "none").returncode == 3


def test_schedules(run):
    """
    Recurring jobs are listed with their rule and next runs. A rule can be previewed before a job is set.
    """
    run("set", "weekly", "--cron", "0 9 * * MON", "--tz", "Europe/Berlin", "--target", "log")
    run("set", "often", "--every", "90", "--target", "log")
    run("set", "once", "--delay", "1h", "--target", "log")
    lines = run("schedule", "list", "--count", "2").stdout.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [
        ["often", "every 90 s"],
        ["weekly", "0 9 * * MON in Europe/Berlin"],
    ]
    assert [line.count(",") for line in lines] == [1, 1]
    document = json.loads(run("schedule", "list", "weekly", "--json").stdout)
    assert (document["rule"]["cron"], len(document["runs"])) == ("0 9 * * MON", 3)
    runs = run("schedule", "next", "*/10 * * * *", "--count", "4").stdout.splitlines()
    assert len(runs) == 4
    assert runs == sorted(runs)
    assert run("schedule", "next", "*/10 * * * *", "--max-runs", "2").stdout.splitlines() == runs[:2]
    assert run("schedule", "next", "0 0 1 1 *", "--until", "2000-01-01").returncode == 2
    assert {line[-6:] for line in runs} == {"+00:00"}
    zoned = run("schedule", "next", "0 8 31 1,7 *", "--tz", "Europe/Zurich", "--count", "2").stdout.splitlines()
    assert {line[10:] for line in zoned} == {" 08:00:00.000+01:00", " 08:00:00.000+02:00"}


def test_all_of_a_rule_is_shown(run):
    """
    A list of schedules shows each part of a rule that differs from its default.
    """
    until = datetime(YEAR, 1, 1, tzinfo=UTC)
    options = ("--exclude", "2041-05-01", "--until", f"{YEAR}-01-01T00:00Z", "--target", "log")
    run("set", "i", "--cron", "0 9 * * *", *options)
    run("set", "k", "--cron", "0 9 * * *", "--max-runs", "3", "--jitter", "5s", "--overlap", "all", "--target", "log")
    run("set", "l", "--every", "1h", "--misfire", "skip", "--misfire-grace", "2m", "--target", "log")
    run("set", "m", "--every", "1h", "--misfire", "all", "--target", "log")
    rules = [line.split("\t")[1] for line in run("schedule", "list").stdout.splitlines()]
    assert rules == [
        f"0 9 * * * in UTC, but not 2041-05-01, until {until.astimezone().isoformat(' ', 'milliseconds')}",
        "0 9 * * * in UTC, spread over 5 s, 3 left, runs due while one lasts: all",
        "every 3600 s, missed runs: skip if later than 120 s",
        "every 3600 s, missed runs: all",
    ]


@pytest.mark.parametrize("line", ["hello", "0 0 31 2 *", ""])
def test_lines_that_never_fire(run, line):
    """
    If a rule cannot be previewed, the error names the rule.
    """
    answer = run("schedule", "next", line)
    assert answer.returncode == 2
    assert f"cron is {line!r}" in answer.stderr


def test_token(run, tmp_path):
    """
    A token is printed once, and the service accepts it. Its hash is written to a private file.
    """
    file = tmp_path / "tokens"
    read = run("token", "read", "--file", "tokens", "--comment", "the board\nwrite " + "0" * 64).stdout.strip()
    write = run("token", "write", "--file", "tokens").stdout.strip()
    assert read != write
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert read not in text
    assert write not in text
    tokens = Tokens.from_file(str(file))
    found = [tokens.find(token) for token in (read, write, "other", "")]
    assert [token and token.access for token in found] == [Access.READ, Access.WRITE, None, None]
    assert len(tokens.known) == 2


def test_token_after_a_line_without_an_end(run, tmp_path):
    """
    If the last line of the token file has no line end, a new token still gets a line of its own.
    """
    file = tmp_path / "tokens"
    first = run("token", "read", "--file", "tokens").stdout.strip()
    file.write_text(file.read_text().rstrip("\n"))
    rest = [run("token", "write", "--file", "tokens").stdout.strip() for _ in range(2)]
    tokens = Tokens.from_file(str(file))
    assert all(tokens.find(token) for token in (first, *rest))
    assert len(file.read_text().splitlines()) == 3


def test_token_with_an_empty_prefix(run, tmp_path):
    """
    A token with an empty prefix is refused, because an unset shell variable would be an empty prefix.
    """
    answer = run("token", "write", "--file", "tokens", "--prefix", "")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("tickwheel: --prefix is empty: ")
    assert list(tmp_path.iterdir()) == []


def test_token_without_a_file(run):
    """
    If no token file is given, only the token is printed on stdout. The line for a token file is printed on stderr.
    """
    answer = run("token", "write")
    assert answer.stdout.count("\n") == 1
    assert "\nwrite " in answer.stderr


def test_token_file_that_cannot_be_written(run):
    """
    If the token file cannot be written, the error names it.
    """
    answer = run("token", "write", "--file", "none/tokens")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "none/tokens" in answer.stderr


def test_doctor_finds_no_problem(run):
    """
    On a healthy machine, the doctor reports no problem, whether or not the store exists.
    """
    wrong = {"clock"} if datetime.now(UTC).year < 2024 else set()
    answer = run("doctor")
    assert answer.returncode == len(wrong), answer.stdout
    assert "serve' makes it" in answer.stdout
    run("set", "a", "--delay", "1h", "--target", "log")
    findings = [json.loads(line) for line in run("doctor", "--json").stdout.splitlines()]
    assert {finding["check"] for finding in findings if not finding["ok"]} == wrong
    assert any("1 pending" in finding["finding"] for finding in findings)
    assert any(finding["check"] == "fired by" and "nobody now" in finding["finding"] for finding in findings)


@pytest.mark.parametrize(
    ("store", "wrong"),
    [("sqlite:///none/x.db", "none' is not there: make it\n"), ("nonsense://x", "store\tWRONG\t")],
)
def test_doctor_finds(run, store, wrong):
    """
    The doctor marks each problem and gives a remedy.

    The problems determine the exit code.
    """
    answer = run("doctor", "--store", store)
    assert answer.returncode == 1
    assert wrong in answer.stdout


def test_doctor_on_a_full_disk(run, monkeypatch):
    """
    If data cannot be flushed to the disk, the doctor reports this with a remedy and makes the other checks.
    """

    def full(_descriptor, _data):
        raise OSError(errno.ENOSPC, "No space left on device")

    run("set", "a", "--delay", "1h", "--target", "log")
    monkeypatch.setattr(os, "write", full)
    answer = run("doctor")
    assert answer.returncode == 1
    assert (
        "flush to disk\tWRONG\tNo space left on device: make room, or name a store on another disk\n" in answer.stdout
    )
    assert "1 pending" in answer.stdout


def findings_of(answer):
    """
    For each check in the doctor's *answer*, return whether it has passed, and its text.
    """
    return {each["check"]: (each["ok"], each["finding"]) for each in map(json.loads, answer.stdout.splitlines())}


def test_doctor_finds_jobs_that_no_node_runs(run, tmp_path, until):
    """
    If jobs need a handler that no node has, the handler is reported with the number of these jobs and a remedy.
    """
    with Scheduler(f"sqlite:///{tmp_path / 'tickwheel.db'}") as scheduler:
        for key in "ab":
            scheduler.set(key, delay=0, handler="typo")
        scheduler.set("c", delay=0, handler="other")
        until(lambda: sum(each["count"] for each in scheduler.stats()["waiting_for_handler"]) == 3)
    answer = run("doctor", "--json")
    found = findings_of(answer)
    assert answer.returncode == 1
    assert found["handler 'typo'"][0] is found["handler 'other'"][0] is False
    assert found["handler 'typo'"][1].startswith("2 jobs wait, and no node can run them: register the handler")
    assert found["handler 'other'"][1].startswith("1 job waits, and ")


def test_doctor_without_zone_data(run, monkeypatch):
    """
    If time zone data is missing, the doctor reports this.

    Otherwise it shows the release of the data.
    """
    assert findings_of(run("doctor", "--json"))["zone data"][0] is True
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    monkeypatch.setitem(sys.modules, "tzdata", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "tzdata" else find_spec(name))
    is_well, text = findings_of(run("doctor", "--json"))["zone data"]
    assert (is_well, "pip install tzdata" in text) == (False, True)


@pytest.mark.parametrize(("offset_ms", "is_well"), [(-999, True), (2_500, False), (-2_500, False), (0, True)])
def test_doctor_compares_clocks(offset_ms, is_well):
    """
    The doctor reports a store's clock that differs by a second or more from the machine's clock.
    """
    (found,) = doctor.state_findings({"offset_ms": offset_ms, "waiting_for_handler": []}, [])
    assert (found[0], found[1]) == ("store's clock", is_well)
    assert ("keep both set" in found[2]) is not is_well
    assert ("ahead" in found[2]) is (offset_ms > 0)


@pytest.mark.parametrize(("versions", "is_well"), [(["1.0", "1.0"], True), (["1.0", "1.1"], False)])
def test_doctor_compares_versions(versions, is_well):
    """
    The doctor reports nodes of different versions.
    """
    nodes = [Node(f"node {number}", 5, 0, {"version": version}) for number, version in enumerate(versions)]
    found = {each[0]: each for each in doctor.state_findings({"offset_ms": 0, "waiting_for_handler": []}, nodes)}
    assert found["versions"][1] is is_well
    assert found["versions"][2].startswith(", ".join(sorted(set(versions))))


@pytest.mark.parametrize(("releases", "is_found"), [(["2025a", "2025b"], True), (["2025b", "2025b", ""], False)])
def test_doctor_compares_zone_data(releases, is_found):
    """
    The doctor reports nodes that have different releases of the time zone data.
    """
    nodes = [Node(f"node {number}", 5, 0, {"zones": release}) for number, release in enumerate(releases)]
    found = {each[0]: each for each in doctor.state_findings({"offset_ms": 0, "waiting_for_handler": []}, nodes)}
    assert ("zone data of nodes" in found) is is_found
    if is_found:
        assert not found["zone data of nodes"][1]
        assert found["zone data of nodes"][2].startswith("2025a, 2025b: ")


def test_doctor_finds_missing_libraries(run, monkeypatch):
    """
    If a library that an extra needs is missing, the doctor shows the command that installs it.
    """
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name in {"cronsim", "uvicorn"} else find_spec(name))
    found = findings_of(run("doctor", "--json"))
    assert found["extra cron"] == (False, "cronsim missing: pip install 'tickwheel[cron]'")
    assert found["extra service"] == (False, "uvicorn missing: pip install 'tickwheel[service]'")


def test_doctor_finds_a_clock_that_was_never_set(monkeypatch):
    """
    If the machine's clock shows a year long past, the doctor says that the clock was never set.
    """
    assert [each[1] for each in doctor.clock_findings()] == [True]
    monkeypatch.setattr(doctor.time, "gmtime", lambda: time.struct_time((1970, 1, 1, 0, 0, 0, 3, 1, 0)))
    ((_, is_well, text),) = doctor.clock_findings()
    assert (is_well, text.endswith(": set it, and keep it set with NTP")) == (False, True)


def test_doctor_finds_a_bad_disk(run, monkeypatch):
    """
    The doctor reports a folder that cannot be written, a disk that is nearly full and a slow disk, each with a remedy.
    """
    monkeypatch.setattr(doctor, "_FREE_MIN", 1 << 62)
    monkeypatch.setattr(doctor, "_flush_ms", lambda _folder: 50.0)
    found = findings_of(run("doctor", "--json"))
    assert (found["free space"][0], found["free space"][1].endswith(": make room")) == (False, True)
    assert found["flush to disk"] == (False, "50.00 ms: this disk is slow, use another")
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    is_well, text = findings_of(run("doctor", "--json"))["folder"]
    assert (is_well, "cannot be written: change its rights" in text) == (False, True)


def test_doctor_finds_a_target_that_is_built_in(run, monkeypatch):
    """
    If an environment variable defines a target with the name of a built-in target, the doctor reports it.
    """
    monkeypatch.setenv("TICKWHEEL_TARGET_LOG", "redis://localhost/")
    answer = run("doctor")
    problem = "the target 'log' is built in: give yours another name\n"
    assert (answer.returncode, f"target log\tWRONG\t{problem}" in answer.stdout) == (1, True)
    assert run("set", "a", "--delay", "1h", "--target", "log").stderr == f"tickwheel: {problem}"


def test_doctor_finds_a_file_that_is_not_a_store(run, tmp_path):
    """
    If a file is not a store, the doctor reports this and does not change the file.
    """
    (tmp_path / "tickwheel.db").write_text("no database" * 100)
    answer = run("doctor")
    assert answer.returncode == 1
    assert "store\tWRONG\t" in answer.stdout
    assert (tmp_path / "tickwheel.db").read_text() == "no database" * 100


def test_completion(run, monkeypatch):
    """
    Shell completion offers commands, and the keys of jobs in the given store.
    """
    monkeypatch.setenv("_TICKWHEEL_COMPLETE", "bash_source")
    assert "complete -o" in run().stdout
    monkeypatch.setenv("_TICKWHEEL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "tickwheel ca")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "cancel" in run().stdout
    monkeypatch.setenv("COMP_WORDS", "tickwheel get --store sqlite:///tea.db t")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert run().stdout.strip() == ""
    monkeypatch.delenv("_TICKWHEEL_COMPLETE")
    for key in ("tea", "toast\n", "toast", "milk"):
        run("set", key, "--delay", "1h", "--target", "log", "--store", "sqlite:///tea.db")
    monkeypatch.setenv("_TICKWHEEL_COMPLETE", "bash_complete")
    for word in ("get", "cancel", "dead replay"):
        monkeypatch.setenv("COMP_WORDS", f"tickwheel {word} --store sqlite:///tea.db t")
        monkeypatch.setenv("COMP_CWORD", str(4 + word.count(" ")))
        assert run().stdout.splitlines() == ["plain,tea", "plain,toast"]


@pytest.mark.parametrize(
    ("url", "code"),
    [("ftp://x", ExitCode.USAGE), ("nonsense", ExitCode.USAGE), ("http://127.0.0.1:1", ExitCode.NO_ANSWER)],
)
def test_top_without_a_service(run, monkeypatch, url, code):
    """
    If no service answers, `top` says so.
    """
    monkeypatch.setattr("tickwheel.cli.top._TIMEOUT_S", 0.2)
    answer = run("top", "--once", "--url", url)
    assert (answer.returncode, url in answer.stderr) == (code, True)


def test_dead_list_with_a_limit(run, dead):
    """
    With `--limit`, `dead list` shows that number of jobs in order of keys. Without it, all are shown.
    """
    keys = [json.loads(line)["key"] for line in run("dead", "list", "--json", "--limit", "2").stdout.splitlines()]
    assert keys == sorted(dead)[:2]
    assert len(run("dead", "list", "--json").stdout.splitlines()) == len(dead)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["serv"], "serve"), (["schedul", "list"], "schedule"), (["zzz"], None), (["lab", "reply"], "replay")],
)
def test_a_misspelt_command(run, typed, meant):
    """
    If a command is unknown, the error suggests a command with a similar name.
    """
    answer = run(*typed)
    assert answer.returncode == 2
    assert answer.stderr.rstrip().endswith(f"Did you mean {meant!r}?") == (meant is not None)


def test_input_that_is_closed(tmp_path):
    """
    If standard input is closed, it is treated as empty.
    """
    line = f"{sys.executable} -m tickwheel.cli import jsonl - <&-"
    answer = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, "Traceback" in answer.stderr) == (0, False), answer.stderr


@pytest.mark.parametrize(
    ("redirected", "said"), [("> /dev/full", "No space left on device"), (">&-", "standard output is closed")]
)
@pytest.mark.parametrize("command", ["list --json", "set k --delay 1h --target log", "--help"])
def test_output_that_cannot_be_written(tmp_path, command, redirected, said):
    """
    If the output cannot be written, the command fails and prints one line about it.
    """
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with Scheduler(f"sqlite:///{tmp_path}/tickwheel.db") as scheduler:
        scheduler.set("there", delay=3600, target="log")
    line = f"{sys.executable} -m tickwheel.cli {command} {redirected}"
    answer = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert answer.returncode == 1, answer.stderr
    error = json.loads(answer.stderr)["error"] if "--json" in command else answer.stderr
    assert error.startswith("tickwheel: ") == ("--json" not in command)
    assert said in error
    assert answer.stderr.count("\n") == 1
