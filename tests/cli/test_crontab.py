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
    Return all jobs, by the commands in their payloads.
    """
    jobs = [json.loads(line) for line in run("list", "--json").stdout.splitlines()]
    return {job["payload"]["command"]: job for job in jobs}


def test_the_syntax_of_cron(run):
    """
    Comments, assignments, aliases, tabs and time zones mean the same as in cron.
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
    The text after an unescaped per cent sign is the standard input of the command.

    Each further per cent sign in this text is a line end. A per cent sign after a backslash is literal.
    """
    assert run("import", "crontab", "-", stdin=f"0 2 * * * {written}\n").returncode == 0
    payload = {"command": command} | ({} if stdin is None else {"stdin": stdin})
    assert [job["payload"] for job in jobs_of(run).values()] == [payload]


def test_variables(run):
    """
    The names and values of variables may be quoted.

    A command gets only the variables that are set above its line.
    """
    text = "\"A\"=\"x y\"\n'B' = 'it'\nC=a 'b'\n0 1 * * * first\nD=\nA=new\n0 1 * * * second\n"
    assert run("import", "crontab", "-", stdin=text).returncode == 0
    jobs = jobs_of(run)
    assert jobs["first"]["payload"]["env"] == {"A": "x y", "B": "it", "C": "a 'b'"}
    assert jobs["second"]["payload"]["env"] == {"A": "new", "B": "it", "C": "a 'b'", "D": ""}


def test_zones(run):
    """
    CRON_TZ sets the time zone for the lines below it, and an empty CRON_TZ restores the default zone.

    TZ applies only to the commands, and a remark in the output says so.
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
    If lines are added, or the times in a job's line change, the job keeps its key and its pause.
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
    If lines were removed from a crontab, the import names and counts their jobs, but does not cancel them.
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
    In the crontab of the system, each line names a user before the command. Such a line is refused without `--system`.
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
    A line with six time fields is refused unless an option allows it.
    """
    for sixth in ("*", "5", "*/2", "1-5", "1,3"):
        answer = run("import", "crontab", "-", stdin=f"0 30 2 * * {sixth} backup\n")
        assert answer.returncode == 2
        assert "looks like a field: pass --seconds" in answer.stderr
    assert run("import", "crontab", "-", "--seconds", stdin="15 30 2 * * * backup\n@daily tea\n").returncode == 0
    assert jobs_of(run)["backup"]["recurrence"]["cron"] == "15 30 2 * * *"


def test_bad_lines(run):
    """
    If a line is invalid or would never fire, the import names the line and stops.

    An option skips such lines.
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
    A @reboot line is skipped with a remark, and the other lines are imported.
    """
    answer = run("import", "crontab", "-", stdin="@reboot once\n0 5 * * 1 good\n")
    assert (answer.returncode, answer.stdout) == (0, "imported 1 job, left out 1 line\n")
    assert answer.stderr == "line 1: @reboot has no instant: call the command where your program starts\n"


def test_files_that_cannot_be_read(run, tmp_path):
    """
    If a file is missing or is not text, the error names the file.
    """
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    for name in ("none", "binary"):
        answer = run("import", "crontab", name)
        assert answer.returncode == 2
        assert name in answer.stderr
    assert not (tmp_path / "tickwheel.db").exists()
