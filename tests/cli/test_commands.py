"""
The commands on a store of their own: what they print, and how they exit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from tickwheel.calendar.duration import from_text
from tickwheel.cli import migrate, serve, token, top, watch
from tickwheel.cli.exits import ExitCode
from tickwheel.cli.lab import generate
from tickwheel.cli.values import DURATION


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
    A job is paused with a note, shown and listed as paused, and resumed; what is not there is refused.
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


def test_backfill(run):
    """
    The runs of an hour are counted, set in two parts, and not set again.
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
    A target is paused with a note, listed, and resumed; one thing has to be named, and a target that is there.
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
    The next run of a recurring job is skipped; a job that fires once, or is not there, is refused.
    """
    due_at = json.loads(run("set", "chime", "--every", "1h", "--target", "log", "--json").stdout)["job"]["due_at"]
    assert run("skip", "chime").stdout.startswith("moved chime, due ")
    assert json.loads(run("get", "chime", "--json").stdout)["due_at"] > due_at
    run("set", "tea", "--delay", "1h", "--target", "log")
    assert "its job fires once" in run("skip", "tea").stderr
    assert run("skip", "coffee").returncode == ExitCode.NOT_FOUND


def test_kept_payload(run):
    """
    `set --keep-payload` changes a job and keeps its payload; a payload beside it is refused.
    """
    run("set", "tea", "--delay", "1h", "--target", "log", "--payload", '{"cups": 2}')
    run("set", "tea", "--delay", "2h", "--target", "log", "--keep-payload")
    assert json.loads(run("get", "tea", "--json").stdout)["payload"] == {"cups": 2}
    answer = run("set", "tea", "--delay", "1h", "--target", "log", "--keep-payload", "--payload", "1")
    assert answer.returncode != 0
    assert "pass payload= or keep_payload=True, not both" in answer.stderr


def test_json_lines(run):
    """
    With --json, a list is one document a line, in the order of the keys, over as many pages as there are.
    """
    lines = "\n".join(f"{n % 60} * * * * job {n}" for n in range(1200))
    assert run("import", "crontab", "-", "--prefix", "j/", stdin=lines).stdout == "imported 1,200 jobs\n"
    found = [json.loads(line) for line in run("list", "--all", "--json").stdout.splitlines()]
    keys = [job["key"] for job in found]
    assert len(keys) == 1200
    assert keys == sorted(keys)
    assert len(run("list").stdout.splitlines()) == 100


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("10m", 600),
        ("10min", 600),
        ("2h30m", 9000),
        ("1d", 86_400),
        ("1w", 604_800),
        ("250ms", 0.25),
        ("PT30M", 1800),
        ("-90s", -90),
    ],
)
def test_durations(text, seconds):
    """
    Durations are seconds, numbers with units, or ISO 8601.
    """
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("serve", "--request-timeout", "50ms"), "'50ms' is too short: write at least 0.1 s"),
        (("serve", "--request-timeout", "soon"), "'soon' is not a duration"),
        (("serve", "--handler-timeout", "-1s"), "'-1s' is too short: write at least 0 s"),
        (("serve", "--handler-timeout", "nan"), "'nan' is too short"),
        (("serve", "--every-min", "0"), "'0' is too short: write at least 0.001 s"),
        (("watch", "k", "--every", "50ms"), "'50ms' is too short"),
        (("watch", "k", "--every", "inf"), "'inf' is too long: write at most 3155760000 s"),
        (("top", "--every", "PT0.05S"), "'PT0.05S' is too short"),
        (("migrate", "a", "b", "--wait", "2h"), "'2h' is too long: write at most 3600 s"),
        (("lab", "generate", "jobs", "f", "--seconds", "0s"), "'0s' is too short: write more than 0 s"),
        (("token", "read", "--expires", "0"), "'0' is too short: write more than 0 s"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_durations_out_of_bounds(run, arguments, part):
    """
    A duration that the command cannot take is refused with its bound.
    """
    answer = run(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert part in answer.stderr


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (serve, {"request_timeout": "1m30s", "handler_timeout": "PT45M", "every_min": "250ms"}),
        (watch, {"every": "2m"}),
        (top, {"every": "PT1M"}),
        (migrate, {"wait_s": "1m"}),
        (generate, {"seconds": "1h"}),
        (token, {"expires": "90d"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_durations_of_other_commands(command, options):
    """
    Whatever option takes seconds takes a duration with units, too.
    """
    types = {option.name: option.type for option in command.command.params}
    read = {name: types[name].convert(text, None, None) for name, text in options.items()}
    assert read == {name: from_text(text) for name, text in options.items()}


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
        (("--at", "2200-01-01"), "100 years"),
        (("--at", "2300-01-01"), "at is"),
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
        (("--delay", "1", "--attempts", "0"), "retry.attempts is 0"),
        (("--delay", "1", "--mode", "append"), "append"),
        (("--delay", "1", "--target", "nowhere"), "nowhere"),
        (("--delay", "1", "--target", "webhook", "--handler", "ftp://example.com"), "ftp://example.com"),
        (("--delay", "1", "--if-generation", "x"), "'x'"),
        (("--delay", "1", "--nonsense"), "--nonsense"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_bad_values(run, arguments, part):
    """
    A bad value is named on stderr, the exit code says usage, and nothing is stored.
    """
    target = () if "--target" in arguments else ("--target", "log")
    answer = run("set", "kept", *arguments, *target)
    assert answer.returncode == 2, answer.stderr
    assert part in answer.stderr
    assert answer.stdout == ""
    assert run("list").stdout == ""


def test_negative_delay_is_due_now(run):
    """
    A delay below zero is due now.
    """
    assert run("set", "late", "--delay", "-5", "--target", "log").returncode == 0


@pytest.mark.parametrize("key", ["", "k" * 513, "k" * 10_240])
def test_bad_keys(run, key):
    """
    A key that is empty or too long is refused by every command that takes one.
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


def test_key_that_is_no_utf8(run_process):
    """
    Bytes that are not UTF-8 are refused as a key.
    """
    answer = run_process("set", b"\xff", "--delay", "1", "--target", "log")
    assert answer.returncode == 2
    assert "surrogate" in answer.stderr


def test_a_process_of_its_own(run_process):
    """
    Run as a process, the command has the documented exit code and writes to the right streams.
    """
    answer = run_process("set", "a", "--delay", "1h", "--target", "log")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("created a, due ")
    answer = run_process("get", "b")
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr == "tickwheel: no job has the key 'b': it was never set, has run, or was cancelled\n"


def test_unknown_job(run):
    """
    Commands on a job that is not there exit with 3 and name it.
    """
    run("set", "other", "--delay", "1h", "--target", "log")
    for arguments in (("move", "none", "--delay", "1"), ("cancel", "none"), ("get", "none")):
        answer = run(*arguments)
        assert (answer.returncode, answer.stdout) == (3, "")
        assert "'none'" in answer.stderr


def test_wrong_generation(run):
    """
    A wrong generation exits with 5, and changes nothing.
    """
    run("set", "a", "--delay", "1h", "--target", "log")
    before = run("get", "a", "--json").stdout
    for arguments in (("set", "a", "--delay", "1", "--target", "log"), ("move", "a", "--delay", "1"), ("cancel", "a")):
        assert run(*arguments, "--if-generation", "999999").returncode == 5
    assert run("set", "a", "--delay", "1", "--target", "log", "--if-generation", "0").returncode == 5
    assert run("get", "a", "--json").stdout == before


def test_no_store(run, tmp_path):
    """
    Reading from a file that is not there exits with 7, and makes none.
    """
    for arguments in (("list",), ("get", "a"), ("cancel", "a"), ("move", "a", "--delay", "1")):
        answer = run(*arguments)
        assert answer.returncode == 7
        assert "tickwheel.db" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_no_store(run, tmp_path):
    """
    A file that is not a store exits with 7, and is left as it was.
    """
    (tmp_path / "tickwheel.db").write_text("no database" * 100)
    for arguments in (("list",), ("set", "a", "--delay", "1", "--target", "log")):
        answer = run(*arguments)
        assert answer.returncode == 7, answer.stderr
        assert answer.stderr.count("\n") == 1
    assert (tmp_path / "tickwheel.db").read_text() == "no database" * 100


def test_keys_cannot_command_the_terminal(run):
    """
    Control characters in a key are printed escaped.
    """
    run("set", "red\x1b[31m\nline", "--delay", "1h", "--target", "log")
    for arguments in (("list",), ("get", "red\x1b[31m\nline"), ("cancel", "red\x1b[31m\nline")):
        assert "red\\x1b[31m\\nline" in run(*arguments).stdout


def test_broken_pipe(run, tmp_path):
    """
    A reader that stops after the first lines gets them, and no complaint.
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
    The help prints every exit code with its meaning, as they are used.
    """
    text = run("--help").stdout
    for code in ExitCode:
        assert f"{code.value}  {code.meaning}" in text


def test_no_command(run):
    """
    Without a command the help is shown, and an unknown one is named.
    """
    assert run().returncode == 2
    answer = run("explode")
    assert answer.returncode == 2
    assert "explode" in answer.stderr


def test_all_that_a_filter_chooses(run):
    """
    Jobs are chosen by the same options in each command, counted by a dry run, and changed.
    """
    for key in ("tea/1", "tea/2", "coffee"):
        run("set", key, "--delay", "1h", "--target", "log")
    before = instants(run)
    assert run("cancel", "--contains", "ea/", "--dry-run").stdout == "2 jobs to be cancelled\n"
    assert run("move", "--target", "log", "--contains", "ea/", "--by", "-10m").stdout == "moved 2 jobs\n"
    assert run("move", "--prefix", "coffee", "--over", "10m", "--at", before["coffee"]).stdout == "moved 1 job\n"
    after = instants(run)
    assert after["tea/1"] < before["tea/1"]
    assert after["coffee"] >= before["coffee"]
    assert run("pause", "--contains", "2", "--note", "why").stdout == "paused 1 job\n"
    assert [line.split("\t")[0] for line in run("list", "--paused").stdout.splitlines()] == ["tea/2"]
    assert run("resume", "--prefix", "").stdout == "resumed 1 job\n"
    assert run("run", "--contains", "1", "--due-from", before["coffee"]).stdout == "run now 0 jobs\n"
    assert run("run", "--prefix", "tea/1").stdout == "run now 1 job\n"
    for wrong in (("tea/1", "--by", "1h"), ("--prefix", "t", "--delay", "1h"), ("--prefix", "t")):
        assert run("move", *wrong).returncode == 2


def instants(run):
    """
    Return when each job is due, by key.
    """
    documents = (json.loads(line) for line in run("list", "--json").stdout.splitlines())
    return {document["key"]: document["due_at"] for document in documents}


def test_cancel_all_under_a_prefix(run):
    """
    All pending jobs under a prefix are cancelled and counted, and others stay.
    """
    for key in ("tea/1", "tea/2", "coffee"):
        run("set", key, "--delay", "1h", "--target", "log")
    assert run("cancel", "--prefix", "tea/").stdout == "cancelled 2 jobs\n"
    assert json.loads(run("cancel", "--prefix", "tea/", "--json").stdout)["changed"] == 0
    assert [line.split("\t")[0] for line in run("list").stdout.splitlines()] == ["coffee"]
    for wrong in ((), ("coffee", "--prefix", ""), ("--prefix", "", "--if-generation", "1"), ("--dry-run",)):
        refused = run("cancel", *wrong)
        assert refused.returncode == 2
        assert "name one job; or choose jobs by --prefix" in refused.stderr
