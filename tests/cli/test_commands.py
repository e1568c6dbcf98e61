"""
The commands on a store, with their output and exit codes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from tickwheel.cli.exits import ExitCode
from tickwheel.scheduler import Scheduler


def test_life_of_a_job(run):
    """
    A job is set, shown, moved, listed and cancelled.
    """
    answer = run("set", "tea", "--delay", "1h", "--target", "log", "--payload", '{"cups": 2}')
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("created tea, due ")
    assert run("set", "tea", "--delay", "2h", "--target", "log").stdout.startswith("replaced tea")
    assert run("move", "tea", "--delay", "3h").stdout.startswith("moved tea")
    facts = json.loads(run("get", "tea", "--json").stdout)
    assert (facts["key"], facts["state"], facts["payload"], facts["target"]) == ("tea", "pending", None, "log")
    assert "tea\tpending\t" in run("list").stdout
    assert run("list", "coffee").stdout == ""
    assert run("cancel", "tea").stdout == "cancelled tea\n"
    assert run("list").stdout == ""


def test_pause_and_resume(run):
    """
    A job can be paused with a note and resumed. While it is paused, the commands show it as paused.

    An unknown key is refused.
    """
    run("set", "tea", "--delay", "1h", "--target", "log")
    run("set", "chime", "--every", "1h", "--target", "log")
    assert run("pause", "tea", "--note", "no milk").stdout.startswith("paused tea, due ")
    assert "tea\tpaused\t" in run("list").stdout
    assert run("list", "--paused").stdout.count("\n") == 1
    pause = json.loads(run("get", "tea", "--json").stdout)["pause"]
    assert pause["note"] == "no milk"
    shown = run("get", "tea").stdout
    assert f"by {pause['by']}: no milk" in shown
    assert run("resume", "tea").stdout.startswith("resumed tea, due ")
    assert run("list", "--paused").stdout == ""
    run("pause", "chime")
    assert run("schedule", "list").stdout.split("\t")[1].endswith(", paused")
    answer = run("pause", "coffee")
    assert (answer.returncode, answer.stdout) == (ExitCode.NOT_FOUND, "")


def test_the_author_of_a_pause(run):
    """
    `--by` sets the author of a pause or of a resume. The job, its history and the list of paused scopes show it.
    """
    run("set", "tea", "--every", "1h", "--target", "log")
    for chosen in (("tea",), ("--prefix", "t"), ("--scope", "log")):
        assert run("pause", *chosen, "--by", "anna").returncode == 0
        pause = "scopes" if chosen[0] == "--scope" else "get"
        shown = json.loads(run(pause, *(["tea"] if pause == "get" else []), "--json").stdout)
        assert (shown if pause == "scopes" else shown["pause"])["by"] == "anna"
        assert run("resume", *chosen, "--by", "bert").returncode == 0
    for key, acts in (("tea", 2), ("log", 1)):
        records = [json.loads(line) for line in run("history", key, "--json").stdout.splitlines()]
        said = [(record["outcome"], record["by"]) for record in records if record["outcome"] != "created"]
        assert said == [("resumed", "bert"), ("paused", "anna")] * acts
    for verb in ("pause", "resume"):
        answer = run(verb, "tea", "--by", "a" * 300)
        assert (answer.returncode, "by is" in answer.stderr) == (ExitCode.USAGE, True)
        for service in ("http://127.0.0.1:1", "HTTP://127.0.0.1:1"):
            answer = run(verb, "tea", "--by", "anna", "--store", service)
            assert (answer.returncode, "--by is 'anna': leave it out" in answer.stderr) == (ExitCode.USAGE, True)


def test_backfill(run):
    """
    A backfill counts the runs of an hour, and then sets a job for each run. If it is repeated, no job is set twice.
    """
    run("set", "chime", "--every", "10m", "--target", "log")
    due_at = datetime.fromisoformat(json.loads(run("get", "chime", "--json").stdout)["due_at"])
    range_ = ("--since", (due_at - timedelta(hours=1)).isoformat(), "--until", due_at.isoformat())
    assert run("schedule", "backfill", "chime", *range_, "--dry-run").stdout == "6 runs, 0 jobs set\n"
    first, rest = run("schedule", "backfill", "chime", *range_, "--limit", "4").stdout.splitlines()
    assert first == "4 runs, 4 jobs set"
    assert rest.startswith("go on with --since ")
    answer = run("schedule", "backfill", "chime", "--since", rest.split()[-1], *range_[2:], "--json")
    assert json.loads(answer.stdout) == {"runs": 2, "created": 2, "next_at": None}
    assert run("schedule", "backfill", "chime", *range_).stdout == "6 runs, 0 jobs set\n"
    assert run("list", "chime@").stdout.count("\n") == 6
    answer = run("schedule", "backfill", "coffee", *range_)
    assert (answer.returncode, answer.stdout) == (2, "")


def test_scopes(run):
    """
    A target can be paused with a note, listed and resumed. Each pause needs keys, a filter or a scope.
    """
    run("set", "tea", "--delay", "1h", "--target", "log")
    assert run("pause", "--scope", "log", "--note", "no milk").stdout.startswith("paused log, since ")
    (scope, _, by, note) = run("scopes").stdout.rstrip("\n").split("\t")
    assert (scope, note) == ("log", "no milk")
    pause = json.loads(run("scopes", "--json").stdout)
    assert (pause["scope"], pause["by"], pause["note"]) == ("log", by, "no milk")
    assert json.loads(run("pause", "--scope", "*", "--json").stdout)["scope"] == "*"
    assert run("resume", "--scope", "*").stdout == "resumed *\n"
    assert run("resume", "--scope", "*").stdout == "* was not paused\n"
    assert json.loads(run("resume", "--scope", "log", "--json").stdout) == {"was_paused": True}
    assert run("scopes").stdout == ""
    for words in (("pause",), ("pause", "tea", "--scope", "log"), ("resume", "--scope", "log", "--if-generation", "3")):
        assert run(*words).returncode == ExitCode.USAGE
    assert "the targets here are" in run("pause", "--scope", "nobody").stderr


def test_skip(run):
    """
    The next run of a recurring job can be skipped.

    For a one-time job or a missing job, the command fails.
    """
    due_at = json.loads(run("set", "chime", "--every", "1h", "--target", "log", "--json").stdout)["job"]["due_at"]
    assert run("skip", "chime").stdout.startswith("moved chime, due ")
    assert json.loads(run("get", "chime", "--json").stdout)["due_at"] > due_at
    run("set", "tea", "--delay", "1h", "--target", "log")
    assert "its job fires once" in run("skip", "tea").stderr
    assert run("skip", "coffee").returncode == ExitCode.NOT_FOUND


def test_kept_payload(run):
    """
    `set --keep-payload` changes a job, but not its payload.

    It is a usage error to combine `--keep-payload` with `--payload`.
    """
    run("set", "tea", "--delay", "1h", "--target", "log", "--payload", '{"cups": 2}')
    run("set", "tea", "--delay", "2h", "--target", "log", "--keep-payload")
    assert json.loads(run("get", "tea", "--json").stdout)["payload"] == {"cups": 2}
    answer = run("set", "tea", "--delay", "1h", "--target", "log", "--keep-payload", "--payload", "1")
    assert answer.returncode != 0
    assert "pass --payload or --keep-payload, not both" in answer.stderr


def test_json_lines(run):
    """
    With --json, a list has one document per line, in the order of the keys.

    It contains all jobs, even if the store returns them in several pages.
    """
    lines = "\n".join(f"{n % 60} * * * * job {n}" for n in range(1200))
    assert run("import", "crontab", "-", "--prefix", "j/", stdin=lines).stdout == "imported 1,200 jobs\n"
    found = [json.loads(line) for line in run("list", "--all", "--json").stdout.splitlines()]
    keys = [job["key"] for job in found]
    assert len(keys) == 1200
    assert keys == sorted(keys)
    assert len(run("list").stdout.splitlines()) == 100


def test_change(run):
    """
    `change` sets only the given fields, and leaves all other fields as they are.

    A change without fields, or with an invalid value, is refused.
    """
    run(
        "set",
        "tea",
        "--cron",
        "0 9 * * *",
        "--tz",
        "Asia/Tokyo",
        "--max-runs",
        "9",
        "--payload",
        "1",
        "--target",
        "log",
    )
    before = json.loads(run("get", "tea", "--json").stdout)
    assert run("change", "tea", "--payload", "2", "--attempts", "3").stdout.startswith("changed")
    after = json.loads(run("get", "tea", "--json").stdout)
    changed = {name for name, value in before.items() if after[name] != value}
    assert changed == {"generation", "payload", "retry"}
    run("change", "tea", "--cron", "30 9 * * *", "--exclude", "2040-12-25")
    rule = json.loads(run("get", "tea", "--json").stdout)["recurrence"]
    assert rule == before["recurrence"] | {"cron": "30 9 * * *", "exclude": ["2040-12-25"]}
    assert run("change", "tea").returncode == ExitCode.USAGE
    assert run("change", "coffee", "--payload", "2").returncode == ExitCode.NOT_FOUND
    run("set", "once", "--delay", "1h", "--target", "log")
    assert "fires once" in run("change", "once", "--every", "5m").stderr


def test_lists_can_be_continued(run, monkeypatch):
    """
    If a list reaches its limit or is interrupted, the jobs so far are printed, and the key from which to continue.
    """
    lines = "\n".join(f"{n % 60} * * * * job {n}" for n in range(1100))
    run("import", "crontab", "-", "--prefix", "j/", stdin=lines)
    every = run("list", "--all").stdout.splitlines()
    first = run("list", "--limit", "5")
    last = first.stdout.splitlines()[-1].split("\t")[0]
    assert first.stderr == f"there may be more: go on with --cursor {last!r}\n"
    rest = run("list", "--cursor", last, "--all")
    assert (rest.stdout.splitlines(), rest.stderr) == (every[5:], "")
    assert run("list", "--cursor", every[-1].split("\t")[0]).stderr == ""
    read = Scheduler.list

    def read_once(scheduler, prefix, *, cursor, **asked):
        if cursor is not None:
            raise KeyboardInterrupt
        return read(scheduler, prefix, cursor=cursor, **asked)

    monkeypatch.setattr(Scheduler, "list", read_once)
    cut = run("list", "--all", "--contains", "j/")
    assert (cut.stdout.splitlines(), cut.returncode) == (every[:1000], ExitCode.INTERRUPTED)
    at = every[999].split("\t")[0]
    assert cut.stderr == f"searched up to {at!r}: go on with --cursor {at!r}\n"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--delay", "nan"), "nan"),
        (("--delay", "inf"), "inf"),
        (("--delay", "1e300"), "1e+300"),
        (("--delay", "None"), "'None'"),
        (("--delay", "soon"), "'soon'"),
        (("--delay", ""), "''"),
        (("--delay", "1x"), "'1x'"),
        (("--delay", "P1M"), "'P1M'"),
        (("--cron", "@every x"), "every is 'x'"),
        (("--delay", "1h 5"), "'1h 5'"),
        (("--at", "tomorrow"), "'tomorrow'"),
        (("--at", "nan"), "nan"),
        (("--at", "20300101"), "'20300101' may be a date"),
        (("--at", "21000301"), "'21000301' may be a date"),
        (("--at", "2999-01-01"), "100 years"),
        (("--at", "9999-01-01"), "at is"),
        (("--at", "99999999999999999999"), "at is"),
        ((), "delay"),
        (("--delay", "1", "--at", "2050-01-01"), "delay"),
        (("--every", "0"), "every is"),
        (("--cron", "hello"), "cron is 'hello'"),
        (("--cron", "0 0 31 2 *"), "never fires"),
        (("--cron", "* * * * *", "--tz", "Mars"), "tz is 'Mars'"),
        (("--delay", "1", "--payload", "{"), "is not JSON"),
        (("--delay", "1", "--payload", "[" * 100_000), "deep"),
        (("--delay", "1", "--payload", '"\\ud800"'), "surrogate"),
        (("--delay", "1", "--payload", "NaN"), "payload is"),
        (("--delay", "1", "--attempts", "0"), "--attempts is 0"),
        (("--delay", "1", "--mode", "append"), "append"),
        (("--delay", "1", "--target", "nowhere"), "nowhere"),
        (("--delay", "1", "--target", "webhook", "--handler", "ftp://example.com"), "ftp://example.com"),
        (("--delay", "1", "--if-generation", "x"), "'x'"),
        (("--delay", "1", "--nonsense"), "--nonsense"),
        (("--every", "1d", "--tz", "Nope/X"), "tz is 'Nope/X': pass an IANA zone"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_bad_values(run, arguments, part):
    """
    If an argument has a bad value, the message names it, and the exit code is that of a usage error.

    Nothing is stored.
    """
    target = () if "--target" in arguments else ("--target", "log")
    answer = run("set", "kept", *arguments, *target)
    assert answer.returncode == 2, answer.stderr
    assert part in answer.stderr
    assert answer.stdout == ""
    assert run("list").stdout == ""


def test_negative_delay_is_due_now(run):
    """
    If the delay is negative, the job is due now.
    """
    assert run("set", "late", "--delay", "-5", "--target", "log").returncode == 0


@pytest.mark.parametrize("key", ["", "k" * 513, "k" * 10_240])
def test_bad_keys(run, key):
    """
    Every command that takes a key refuses a key that is empty or too long.
    """
    run("set", "other", "--delay", "1h", "--target", "log")
    for arguments in (
        ("set", key, "--delay", "1", "--target", "log"),
        ("move", key, "--delay", "1"),
        ("cancel", key),
        ("get", key),
    ):
        answer = run(*arguments)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert "key is" in answer.stderr
        assert len(answer.stderr) < 500


def test_a_key_that_is_not_utf8(run_process):
    """
    A key with bytes that are not UTF-8 is refused.
    """
    answer = run_process("set", b"\xff", "--delay", "1", "--target", "log")
    assert answer.returncode == 2
    assert "surrogate" in answer.stderr


def test_the_command_in_a_separate_process(run_process):
    """
    If the command runs in a separate process, its exit code and its two output streams are as documented.
    """
    answer = run_process("set", "a", "--delay", "1h", "--target", "log")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("created a, due ")
    answer = run_process("get", "b")
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr == "tickwheel: no job has the key 'b': it was never set, has run, or was cancelled\n"


def test_unknown_job(run):
    """
    A command on a missing job exits with 3.

    The message names the job.
    """
    run("set", "other", "--delay", "1h", "--target", "log")
    for arguments in (("move", "none", "--delay", "1"), ("cancel", "none"), ("get", "none")):
        answer = run(*arguments)
        assert (answer.returncode, answer.stdout) == (3, "")
        assert "'none'" in answer.stderr


def test_wrong_generation(run):
    """
    For a wrong generation, the command exits with 5 and changes nothing.
    """
    run("set", "a", "--delay", "1h", "--target", "log")
    before = run("get", "a", "--json").stdout
    for arguments in (("set", "a", "--delay", "1", "--target", "log"), ("move", "a", "--delay", "1"), ("cancel", "a")):
        assert run(*arguments, "--if-generation", "999999").returncode == 5
    assert run("set", "a", "--delay", "1", "--target", "log", "--if-generation", "0").returncode == 5
    assert run("get", "a", "--json").stdout == before


def test_no_store(run, tmp_path):
    """
    A command that reads from a missing file exits with 7 and does not create the file.
    """
    for arguments in (("list",), ("get", "a"), ("cancel", "a"), ("move", "a", "--delay", "1")):
        answer = run(*arguments)
        assert answer.returncode == 7
        assert "tickwheel.db" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_store(run, tmp_path):
    """
    A command on a file that is not a store exits with 7 and does not change the file.
    """
    (tmp_path / "tickwheel.db").write_text("no database" * 100)
    for arguments in (("list",), ("set", "a", "--delay", "1", "--target", "log")):
        answer = run(*arguments)
        assert answer.returncode == 7, answer.stderr
        assert answer.stderr.count("\n") == 1
    assert (tmp_path / "tickwheel.db").read_text() == "no database" * 100


def test_control_characters_in_keys_are_escaped(run):
    """
    Control characters in a key are escaped in the output.
    """
    run("set", "red\x1b[31m\nline", "--delay", "1h", "--target", "log")
    for arguments in (("list",), ("get", "red\x1b[31m\nline"), ("cancel", "red\x1b[31m\nline")):
        assert "red\\x1b[31m\\nline" in run(*arguments).stdout


def test_broken_pipe(run, tmp_path):
    """
    If the program that reads the output stops reading, the command ends without an error.
    """
    lines = "\n".join(f"{n % 60} * * * * job {n} {'x' * 200}" for n in range(3000))
    run("import", "crontab", "-", stdin=lines)
    listing = subprocess.Popen(
        [sys.executable, "-m", "tickwheel.cli", "list", "--all", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout.readline().startswith(b"{")
    listing.stdout.close()
    assert listing.wait(30) == 0
    with listing.stderr as stderr:
        assert stderr.read() == b""


def test_help_names_the_exit_codes(run):
    """
    The help lists every exit code with its meaning.
    """
    text = run("--help").stdout
    for code in ExitCode:
        assert f"{code.value}  {code.meaning}" in text


def test_no_command(run):
    """
    Without a subcommand, the help is printed.

    If a subcommand is unknown, the error names it.
    """
    assert run().returncode == 2
    answer = run("explode")
    assert answer.returncode == 2
    assert "explode" in answer.stderr


def test_a_recurring_job_set_again(run):
    """
    If a recurring job is set again with the same fields, nothing changes.

    Only `--mode restart` begins a new series of runs.
    """
    rule = ("set", "series", "--every", "1h", "--target", "log")
    assert run(*rule).stdout.startswith("created series")
    assert run("set", "series", "--every", "3600s", "--target", "log").stdout.startswith("unchanged series")
    assert run(*rule, "--payload", "2").stdout.startswith("changed series")
    assert run(*rule, "--payload", "2", "--mode", "restart").stdout.startswith("restarted series")
