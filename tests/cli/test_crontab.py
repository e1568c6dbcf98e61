"""
Crontabs, as people have them.
"""

from __future__ import annotations

import json

TAB = """\
# m h dom mon dow command
SHELL=/bin/sh
MAILTO = "ops@example.com"

0 5 * * 1 tar -zcf /var/backups/home.tgz /home/
@daily  echo 'a % b'
CRON_TZ=Europe/Berlin
30 2 * * *\t/usr/bin/report --all   # not a comment
"""


def test_reads_what_cron_reads(run):
    """
    Comments, assignments, aliases, tabs and zones are read as cron reads them.
    """
    answer = run("import", "crontab", "-", "--prefix", "tab/", stdin=TAB)
    assert (answer.returncode, answer.stdout) == (0, "imported 3 jobs\n"), answer.stderr
    jobs = {job["key"]: job for job in map(json.loads, run("list", "--json").stdout.splitlines())}
    assert list(jobs) == ["tab/5", "tab/6", "tab/8"]
    assert jobs["tab/5"]["payload"] == {"command": "tar -zcf /var/backups/home.tgz /home/"}
    assert jobs["tab/6"]["recurrence"]["cron"] == "0 0 * * *"
    assert jobs["tab/8"]["recurrence"]["tz"] == "Europe/Berlin"
    assert jobs["tab/8"]["payload"] == {"command": "/usr/bin/report --all   # not a comment"}


def test_importing_again_replaces(run, tmp_path):
    """
    The same file imported twice makes the same jobs, named after it.
    """
    (tmp_path / "my.crontab").write_text("0 5 * * 1 a\n@hourly b\n")
    for _ in range(2):
        assert run("import", "crontab", "my.crontab").returncode == 0
    assert [line.split("\t")[0] for line in run("list").stdout.splitlines()] == ["my.crontab/1", "my.crontab/2"]


def test_lines_that_are_gone(run, tmp_path):
    """
    Jobs of lines that the file has no more are named and counted, and not cancelled; jobs of other names are not.
    """
    (tmp_path / "ct").write_text("0 5 * * 1 a\n@hourly b\n@daily c\n")
    run("import", "crontab", "ct")
    run("set", "ct/x", "--every", "1h", "--target", "log")
    run("set", "ct/9", "--delay", "1h", "--target", "log")
    (tmp_path / "ct").write_text("0 5 * * 1 a\nhello\n")
    answer = run("import", "crontab", "ct", "--skip-bad", "--json")
    assert json.loads(answer.stdout) == {"imported": 1, "left_out": 1, "earlier": 2}
    for key in ("ct/2", "ct/3"):
        assert f"{key} is from an earlier import, and still fires: tickwheel cancel {key}\n" in answer.stderr
        assert run("cancel", key).returncode == 0
    assert run("import", "crontab", "ct", "--skip-bad").stderr.count("\n") == 1  # of the line that cannot be read


def test_system_crontab(run):
    """
    In the system's crontab a user comes before the command.
    """
    run(
        "import",
        "crontab",
        "-",
        "--system",
        "--prefix",
        "",
        stdin="17 * * * * root cd / && run-parts --report /etc/cron.hourly\n",
    )
    job = json.loads(run("get", "1", "--json").stdout)
    assert job["payload"] == {"command": "cd / && run-parts --report /etc/cron.hourly", "user": "root"}


def test_bad_lines(run):
    """
    One line that cannot be read, or never fires, stops the whole import and is named; it can be left out.
    """
    text = "0 5 * * 1 good\n0 0 31 2 * never\n61 * * * * bad\nhello\n@reboot once\n"
    answer = run("import", "crontab", "-", stdin=text)
    assert answer.returncode == 2
    for part in ("line 2: ", "never fires", "line 3: ", "line 4: ", "line 5: ", "nothing was imported"):
        assert part in answer.stderr
    answer = run("import", "crontab", "-", "--skip-bad", "--prefix", "", stdin=text)
    assert (answer.returncode, answer.stdout) == (0, "imported 1 job, left out 4 lines\n")


def test_files_that_are_none(run, tmp_path):
    """
    A file that does not exist, or is not text, is named.
    """
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    for name in ("none", "binary"):
        answer = run("import", "crontab", name)
        assert answer.returncode == 2
        assert name in answer.stderr
    assert not (tmp_path / "tickwheel.db").exists()
