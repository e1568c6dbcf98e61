"""
The import of crontabs as they occur in practice.
"""

from __future__ import annotations

import json

import pytest

TAB = """\
# m h dom mon dow command
SHELL=/bin/sh
MAILTO = "ops@example.com"

0 5 * * 1 tar -zcf /var/backups/home.tgz /home/
@daily  echo 'a % b'
CRON_TZ=Europe/Berlin
30 2 * * *\t/usr/bin/report --all   # not a comment
"""


def jobs_of(run):
    """
    Return the jobs by their commands.
    """
    jobs = [json.loads(line) for line in run("list", "--json").stdout.splitlines()]
    return {job["payload"]["command"]: job for job in jobs}


def test_the_syntax_of_cron(run):
    """
    Comments, assignments, aliases, tabs and zones have the same meaning as in cron.
    """
    answer = run("import", "crontab", "-", "--prefix", "tab/", stdin=TAB)
    assert (answer.returncode, answer.stdout) == (0, "imported 3 jobs\n"), answer.stderr
    jobs = jobs_of(run)
    env = {"SHELL": "/bin/sh", "MAILTO": "ops@example.com"}
    backup = "tar -zcf /var/backups/home.tgz /home/"
    assert jobs[backup]["payload"] == {"command": backup, "env": env}
    assert jobs["echo 'a "]["payload"] == {"command": "echo 'a ", "stdin": " b'\n", "env": env}
    assert jobs["echo 'a "]["recurrence"]["cron"] == "0 0 * * *"
    report = "/usr/bin/report --all   # not a comment"
    assert jobs[report]["recurrence"]["tz"] == "Europe/Berlin"
    assert jobs[report]["payload"] == {"command": report, "env": env}


@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        ("date +\\%F", "date +%F", None),
        ("mail -s hi root%one%two", "mail -s hi root", "one\ntwo\n"),
        ("cat%50\\% of it%", "cat", "50% of it\n"),
        ("printf '\\t'", "printf '\\t'", None),
        ("a \\\\%b", "a \\\\", "b\n"),
        ("cat%", "cat", "\n"),
        ("echo a\\", "echo a\\", None),
    ],
)
def test_per_cent_signs(run, written, command, stdin):
    """
    An unescaped per cent sign begins the standard input of the command, and separates the lines of this input.

    After a backslash it is literal.
    """
    assert run("import", "crontab", "-", stdin=f"0 2 * * * {written}\n").returncode == 0
    payload = {"command": command} | ({} if stdin is None else {"stdin": stdin})
    assert [job["payload"] for job in jobs_of(run).values()] == [payload]


def test_variables(run):
    """
    Names and values may be quoted.

    A command gets the variables above its line, but not those below it.
    """
    text = "\"A\"=\"x y\"\n'B' = 'it'\nC=a 'b'\n0 1 * * * first\nD=\nA=new\n0 1 * * * second\n"
    assert run("import", "crontab", "-", stdin=text).returncode == 0
    jobs = jobs_of(run)
    assert jobs["first"]["payload"]["env"] == {"A": "x y", "B": "it", "C": "a 'b'"}
    assert jobs["second"]["payload"]["env"] == {"A": "new", "B": "it", "C": "a 'b'", "D": ""}


def test_zones(run):
    """
    CRON_TZ is the zone of the lines below it. If CRON_TZ is empty, these lines have the default zone.

    TZ applies only to the commands, and a remark says so.
    """
    text = (
        "0 1 * * * first\nCRON_TZ='Asia/Tokyo'\n0 1 * * * second\nTZ=America/New_York\n0 1 * * * third\n"
        'CRON_TZ=\n0 1 * * * fourth\nCRON_TZ=""\n0 1 * * * fifth\n'
    )
    answer = run("import", "crontab", "-", "--tz", "Europe/Berlin", stdin=text)
    assert answer.stdout == "imported 5 jobs\n"
    assert answer.stderr.startswith("line 4: TZ is the zone of the commands")
    zones = {command: job["recurrence"]["tz"] for command, job in jobs_of(run).items()}
    tokyo, berlin = "Asia/Tokyo", "Europe/Berlin"
    assert zones == {"first": berlin, "second": tokyo, "third": tokyo, "fourth": berlin, "fifth": berlin}
    assert jobs_of(run)["third"]["payload"]["env"] == {"TZ": "America/New_York"}


def test_keys_follow_commands(run, tmp_path):
    """
    A job keeps its key when lines are added above it or its fields change.

    So it also keeps its pause.
    """
    (tmp_path / "ct").write_text("0 5 * * 1 /usr/bin/backup --all\n@hourly b\n@daily b\n")
    assert run("import", "crontab", "ct").returncode == 0
    keys = [line.split("\t")[0] for line in run("list").stdout.splitlines()]
    assert [key.partition("-")[0] for key in keys] == ["ct/b", "ct/b", "ct/backup"]
    assert run("pause", keys[2]).returncode == 0
    (tmp_path / "ct").write_text("# new\n@daily a\n@hourly b\n@daily b\n30 6 * * 2 /usr/bin/backup --all\n")
    assert run("import", "crontab", "ct").returncode == 0
    jobs = {job["key"]: job for job in map(json.loads, run("list", "--json").stdout.splitlines())}
    assert set(keys) < set(jobs)
    assert len(jobs) == 4
    assert jobs[keys[2]]["recurrence"]["cron"] == "30 6 * * 2"
    assert jobs[keys[2]]["pause"] is not None


def test_lines_that_are_gone(run, tmp_path):
    """
    Jobs whose lines were removed are named and counted, but not cancelled.

    Jobs of other imports are ignored.
    """
    (tmp_path / "ct").write_text("0 5 * * 1 a\n@hourly b\n@daily c\n")
    run("import", "crontab", "ct")
    keys = [line.split("\t")[0] for line in run("list").stdout.splitlines()]
    run("set", "ct/x", "--every", "1h", "--target", "log")
    (tmp_path / "ct").write_text("0 5 * * 1 a\nhello\n")
    answer = run("import", "crontab", "ct", "--skip-bad", "--json")
    assert json.loads(answer.stdout) == {"imported": 1, "left_out": 1, "earlier": 2}
    for key in keys[1:]:
        assert f"{key} is from an earlier import, and still fires: tickwheel cancel {key}\n" in answer.stderr
        assert run("cancel", key).returncode == 0
    assert run("import", "crontab", "ct", "--skip-bad").stderr.count("\n") == 1  # only about the unreadable line


def test_system_crontab(run):
    """
    In the system's crontab a user precedes the command.

    Without --system such a line is refused. The user is not taken for the command.
    """
    text = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n"
    answer = run("import", "crontab", "-", stdin=text)
    assert answer.returncode == 2
    assert "'root', which is an account: pass --system" in answer.stderr
    assert run("import", "crontab", "-", "--system", stdin=text).returncode == 0
    (payload,) = (job["payload"] for job in jobs_of(run).values())
    assert payload == {"command": "cd / && run-parts --report /etc/cron.hourly", "user": "root"}
    answer = run("import", "crontab", "-", "--system", stdin="17 * * * * root\n")
    assert "no command after '17 * * * *' and the user 'root'" in answer.stderr


def test_six_fields(run):
    """
    Six fields are refused unless an option allows them.

    (cron would take the sixth field for the command.)
    """
    for sixth in ("*", "5", "*/2", "1-5", "1,3"):
        answer = run("import", "crontab", "-", stdin=f"0 30 2 * * {sixth} backup\n")
        assert answer.returncode == 2
        assert "looks like a field: pass --seconds" in answer.stderr
    assert run("import", "crontab", "-", "--seconds", stdin="15 30 2 * * * backup\n@daily tea\n").returncode == 0
    assert jobs_of(run)["backup"]["recurrence"]["cron"] == "15 30 2 * * *"


def test_bad_lines(run):
    """
    A line that cannot be read, or never fires, is named and stops the import.

    With an option, the line is skipped.
    """
    text = "0 5 * * 1 good\n0 0 31 2 * never\n61 * * * * bad\nhello\n10/15 * * * * step\n0 5 * * 1\n@daily\n"
    answer = run("import", "crontab", "-", stdin=text)
    assert answer.returncode == 2
    parts = ("line 2: ", "never fires", "line 3: ", "line 4: ", "line 5: cron ignores the step of '10/15'")
    for part in (*parts, "line 6: there is no command", "line 7: there is no command", "nothing was imported"):
        assert part in answer.stderr
    answer = run("import", "crontab", "-", "--skip-bad", "--prefix", "", stdin=text)
    assert (answer.returncode, answer.stdout) == (0, "imported 1 job, left out 6 lines\n")


def test_reboot(run):
    """
    A @reboot line is skipped with a remark.

    The other lines are imported.
    """
    answer = run("import", "crontab", "-", stdin="@reboot once\n0 5 * * 1 good\n")
    assert (answer.returncode, answer.stdout) == (0, "imported 1 job, left out 1 line\n")
    assert answer.stderr == "line 1: @reboot has no instant: call the command where your program starts\n"


def test_files_that_cannot_be_read(run, tmp_path):
    """
    If a file is missing or is not text, the error names it.
    """
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    for name in ("none", "binary"):
        answer = run("import", "crontab", name)
        assert answer.returncode == 2
        assert name in answer.stderr
    assert not (tmp_path / "tickwheel.db").exists()
