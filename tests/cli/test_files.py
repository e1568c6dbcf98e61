"""
Exports of jobs to files, and imports of jobs from files.
"""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from years import YEAR, year_like

from tickwheel.cli.interchange import exported, request_of
from tickwheel.jobs.model import USUAL_RETRY
from tickwheel.jobs.recurrence import Interval, Recurrence
from tickwheel.jobs.requests import set_write
from tickwheel.scheduler import Job, RetryPolicy, Scheduler, State
from tickwheel.testing import InlineScheduler, ManualClock

LINES = """\
{"key": "a", "at": "YEAR-01-01T00:00:00Z", "target": "log", "payload": {"big": 12345678901234567890}, "expires": 60}

{"key": "b", "cron": "0 9 * * MON", "tz": "Europe/Berlin", "misfire": "skip", "jitter": 30, "target": "log"}
{"key": "b2", "every": "90s", "tz": "Asia/Tokyo", "until": "YEAR-02-01T00:00Z", "max_runs": 9, "target": "log"}
{"key": "b4", "every": 60, "at": "YEAR-06-01T00:00Z", "tz": "Asia/Tokyo", "exclude": ["* * * * SUN"], "target": "log"}
{"key": "b3", "cron": "0 9 L * *", "misfire": "skip", "misfire_grace": "PT5M", "overlap": "all", "target": "log"}
{"key": "c", "every": 90, "at": EPOCH, "target": "webhook", "handler": "https://example.com/hook"}
{"key": "d", "at": EPOCH.5, "target": "log", "retry": {"attempts": 2, "kind": "list", "waits_ms": [5, 10]}}
""".replace("YEAR", str(YEAR)).replace("EPOCH", str(int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp())))


def test_an_export_makes_the_same_jobs(run):
    """
    If an export is imported into another store, each job is the same: payload, rule, policy, expiry and due time.
    """
    answer = run("import", "jsonl", "-", stdin=LINES)
    assert (answer.returncode, answer.stdout) == (0, "imported 7 jobs\n"), answer.stderr
    exported = run("export").stdout
    assert run("import", "jsonl", "-", "--store", "sqlite:///copy.db", stdin=exported).returncode == 0
    assert run("export", "--store", "sqlite:///copy.db").stdout == exported
    one, two = (
        [json.loads(line) for line in run("list", "--json", "--store", store).stdout.splitlines()]
        for store in ("sqlite:///tickwheel.db", "sqlite:///copy.db")
    )
    for job in (*one, *two):
        del job["generation"], job["first_set_at"]
        rule = job["recurrence"]
        if rule is not None and "every_ms" in rule:  # if `at` is excluded, the first run is some intervals later
            rule["anchor_at"] %= rule["every_ms"]
    assert one == two
    assert one[0]["payload"] == {"big": 12345678901234567890}


def test_a_first_run_on_an_excluded_day_keeps_its_phase(run):
    """
    If a job's first run would be on an excluded day, the export still has the phase of the job's interval.
    """
    year = year_like(2049)
    line = {"key": "k", "every": 3600, "at": f"{year}-06-06T10:20:30+09:00", "tz": "Asia/Tokyo", "target": "log"}
    line["exclude"] = [f"{year + 1}-12-24/{year + 2}-01-02", "* * * * SUN"]
    assert run("import", "jsonl", "-", stdin=json.dumps(line)).returncode == 0
    exported_line = run("export").stdout
    assert json.loads(exported_line)["at"] == f"{year}-06-06T15:20:30.000+00:00"
    assert run("import", "jsonl", "-", "--store", "sqlite:///copy.db", stdin=exported_line).returncode == 0
    assert run("export", "--store", "sqlite:///copy.db").stdout == exported_line


def test_a_series_that_has_begun_is_not_run_again():
    """
    If a recurring job began long ago, its export begins at the next run, with the same phase and jitter.
    """
    rule = Recurrence(Interval(60_000, anchor_at=7_000), jitter_ms=30_000)
    due_at = 7_000 + 60_000 * 1_000_000 + rule.shift_ms("k")
    line = exported(Job("k", 1, due_at, recurrence=rule.to_text(), target="log"))
    ahead = replace(rule, next_at=due_at).to_text()  # as after a run_now, which adds a run
    assert exported(Job("k", 1, due_at - 200_000, recurrence=ahead, target="log")) == line
    write = set_write(request_of(line), due_at - 5_000, lambda _target, _handler: USUAL_RETRY)
    assert write.job.due_at == due_at
    assert Recurrence.from_text(write.job.recurrence).rule.next(due_at) == due_at - rule.shift_ms("k") + 60_000


def test_a_run_that_is_retried_is_exported_with_its_full_time():
    """
    The exported `expires` of a recurring job is that of its rule, even while a run waits for a retry.

    The exported `expires` of a one-time job is the time from its due time to its expiry.
    """
    rule = Recurrence(Interval(60_000, anchor_at=7_000), expires_ms=30_000)
    job = Job("k", 1, 7_000 + 60_000 * 1_000_000 + 29_000, expires_at=60_000 * 1_000_000 + 37_000)
    assert exported(replace(job, recurrence=rule.to_text()))["expires"] == 30.0
    assert exported(job)["expires"] == 1.0
    assert exported(replace(job, due_at=job.expires_at + 1))["expires"] == 0.001


def test_a_delayed_start_is_exported(run):
    """
    If the first run of a cron job was delayed, the export contains the time of this run.
    """
    assert run("set", "c", "--cron", "0 9 * * *", "--at", f"{YEAR}-01-01T00:00Z", "--target", "log").returncode == 0
    exported_line = run("export").stdout
    assert run("import", "jsonl", "-", "--store", "sqlite:///copy.db", stdin=exported_line).returncode == 0
    assert run("export", "--store", "sqlite:///copy.db").stdout == exported_line
    assert json.loads(exported_line)["at"] == f"{YEAR}-01-01T09:00:00.000+00:00"


def test_a_series_is_imported_into_its_own_store():
    """
    If a recurring job is exported and imported again into the same store, it does not change.
    """
    clock = ManualClock()
    scheduler = InlineScheduler(clock)

    @scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=600_000))
    def handler(payload):
        if payload == "fails":
            raise OSError

    scheduler.start()
    rules = {
        "counted": {"every": "1h", "jitter": "5m", "max_runs": 9},
        "calendar": {"cron": "0 9 * * 1-5", "tz": "Europe/Berlin", "misfire": "skip", "misfire_grace": "5m"},
        "late": {"every": "7h", "at": 1_000_000_000, "until": 4_133_980_800, "exclude": ["2040-01-01"]},
        "tried again": {"every": "1h", "expires": "20m", "overlap": "once", "payload": "fails"},
    }
    for key, rule in rules.items():
        scheduler.set(key, handler="h", **rule)
    clock.advance(3_600 + 301)
    assert scheduler.get("tried again").attempt == 1
    for key in rules:
        job = scheduler.get(key)
        answer = scheduler.set_many([request_of(json.loads(json.dumps(exported(job))))])[0]
        assert (answer.outcome, answer.job) == ("unchanged", job)
    scheduler.stop()


def test_csv(run):
    """
    The first line of a CSV table has the names of the fields. An empty cell means that the field has no value.
    """
    table = 'key,delay,every,max_runs,target,payload\na,1h,,,log,"{""n"": 1}"\nb,,60,5,log,hello\nc,3600,,,log,\n'
    assert run("import", "csv", "-", stdin=table).stdout == "imported 3 jobs\n"
    jobs = [json.loads(line) for line in run("list", "--json").stdout.splitlines()]
    assert [job["payload"] for job in jobs] == [{"n": 1}, "hello", None]
    assert (jobs[1]["recurrence"]["every_ms"], jobs[1]["recurrence"]["max_runs"]) == (60_000, 5)


def test_columns_of_a_retry(run):
    """
    A CSV table can have a column with the number of attempts, or a column with the whole retry policy as JSON.
    """
    policy = '"{""kind"": ""list"", ""waits_ms"": [1, 2]}"'
    table = f"key,delay,target,retry,attempts\na,1h,log,{policy},3\nb,1h,log,,7\nc,1h,log,{policy},\n"
    assert run("import", "csv", "-", stdin=table).stdout == "imported 3 jobs\n"
    retries = [json.loads(line)["retry"] for line in run("export").stdout.splitlines()]
    assert [(retry["kind"], retry["attempts"]) for retry in retries] == [
        ("list", 3),
        ("exponential", 7),
        ("list", 5),
    ]


def test_paused_and_dead_jobs(run, tmp_path):
    """
    A paused job is still paused after an import. Dead letters are not exported or imported.
    """
    path = tmp_path / "tickwheel.db"
    past = time.time() - 86_400.0
    with Scheduler(f"sqlite:///{path}") as scheduler:
        scheduler.set("due", at=past + 2**31, target="log")
        scheduler.set("series", every=60, at=past + 2**31, target="log")
        for key in ("due", "series"):
            scheduler.pause(key, note="moving", by="me")
        scheduler.move("due", at=past)
        scheduler.set("dead", delay=0, handler="fails", retry=RetryPolicy(attempts=1))

        @scheduler.handler("fails")
        def fails(payload):
            raise ValueError(payload)

        scheduler.pause_scope("handler:other")
        scheduler.start()
        while scheduler.get("dead").state is not State.DEAD:
            pass
    answer = run("export")
    assert "1 dead letter written" in answer.stderr
    assert "1 paused scope not written" in answer.stderr
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    dead = next(line for line in lines if line["key"] == "dead")
    assert (dead["state"], "ValueError" in dead["error"]) == ("dead", True)
    columns = sorted({name for line in lines for name in line})
    table = io.StringIO()
    rows = csv.DictWriter(table, columns)
    rows.writeheader()
    for line in lines:
        rows.writerow({name: value if isinstance(value, str) else json.dumps(value) for name, value in line.items()})
    for form, text in (("jsonl", answer.stdout), ("csv", table.getvalue())):
        store = ("--store", f"sqlite:///{form}.db")
        for _ in range(2):
            made = run("import", form, "-", *store, stdin=text)
            assert made.stdout == "imported 2 jobs, left out 1 line\n", made.stderr
            assert "1 dead letter left out" in made.stderr
            with Scheduler(f"sqlite:///{tmp_path / form}.db") as scheduler:
                jobs = scheduler.list().jobs
                assert [(job.key, job.pause.note) for job in jobs] == [("due", "moving"), ("series", "moving")]
                assert jobs[0].due_at < (past + 2**31) * 1000  # the due time is not the one that the pause stored
                assert jobs[1].recurrence is not None


@pytest.mark.parametrize(("field", "value"), [("pause", "moving"), ("state", "dead")])
def test_a_manifest_has_no_paused_or_dead_jobs(run, field, value):
    """
    If an export is declared as a manifest, its paused and dead jobs are left out.
    """
    line = json.dumps({"key": "k", "cron": "0 9 * * *", "target": "log", field: value})
    answer = run("import", "jsonl", "-", "--manifest", "m", stdin=line)
    assert (answer.returncode, f"line 1: {field} is" in answer.stderr) == (2, True), answer.stderr


ENDS = "a\u2028b\u2029c\x85d"


def test_unicode_line_separators(run, tmp_path):
    """
    A Unicode line separator in a payload does not end the line of the file.
    """
    (tmp_path / "raw.jsonl").write_text(
        json.dumps({"key": "k", "delay": 3600, "target": "log", "payload": ENDS}, ensure_ascii=False)
    )
    assert run("import", "jsonl", "raw.jsonl").stdout == "imported 1 job\n"
    lines = run("export").stdout
    assert len(lines.splitlines()) == 1
    assert "a\\u2028b\\u2029c\\u0085d" in lines
    assert run("import", "jsonl", "-", stdin=lines.replace("\n", "\r\n")).stdout == "imported 1 job\n"
    assert run("import", "crontab", "-", stdin=f"0 9 * * *  {ENDS}\r\n").stdout == "imported 1 job\n"
    payloads = [json.loads(line)["payload"] for line in run("list", "--json").stdout.splitlines()]
    assert payloads == [{"command": ENDS}, ENDS]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cells_of_more_than_one_line(run, tmp_path, end):
    """
    A quoted cell keeps its own line ends, even if the lines of the table end differently.
    """
    (tmp_path / "t.csv").write_bytes(
        f'key,delay,target,payload{end}a,1h,log,"one{end}two"{end}b,1h,log,{ENDS}{end}'.encode()
    )
    assert run("import", "csv", "t.csv").stdout == "imported 2 jobs\n"
    payloads = [json.loads(line)["payload"] for line in run("list", "--json").stdout.splitlines()]
    assert payloads == [f"one{end}two", ENDS]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("csv", "key,delay,target\nk,1h,log\n"),
        ("jsonl", '{"key": "k", "delay": "1h", "target": "log"}\n'),
        ("crontab", "0 9 * * MON  tea\n"),
    ],
)
@pytest.mark.parametrize("name", ["-", "file"])
def test_a_byte_order_mark(run, tmp_path, form, text, name):
    """
    A byte order mark at the beginning of a file, which Excel writes, does not become part of the first line.
    """
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbf" + text.encode())
    answer = run("import", form, name, stdin="\ufeff" + text)
    assert answer.stdout == "imported 1 job\n", answer.stderr


GOOD = '{"key": "good", "delay": 3600, "target": "log"}\n'


@pytest.mark.parametrize(
    ("form", "text", "parts"),
    [
        ("jsonl", GOOD + "{", ("line 2", "not JSON")),
        ("jsonl", GOOD + "[1]", ("line 2", "not a JSON object")),
        ("jsonl", GOOD + "[" * 100_000, ("line 2", "not JSON")),
        ("jsonl", GOOD + '{"delay": 1}', ("line 2", "key is None")),
        ("jsonl", GOOD + '{"key": "b", "delay": 1, "surprise": 1}', ("line 2", "'surprise'")),
        ("jsonl", GOOD + '{"key": "b", "at": "soon"}', ("line 2", "'soon'")),
        ("jsonl", GOOD + '{"key": "b", "at": "20290101"}', ("line 2", "at is '20290101'", "write 2029-01-01 for the")),
        ("csv", "key,at,target\na,20290101,log\n", ("line 2", "at is '20290101'", "or 20290101.0 for seconds")),
        ("jsonl", GOOD + '{"key": "b", "delay": 1, "retry": {"tries": 1}}', ("line 2", "tries")),
        ("csv", "key,delay,target\na,x,log\n", ("line 2", "delay is 'x'")),
        ("csv", "key,delay,target\na,1,log,more\n", ("line 2", "more cells")),
        ("csv", 'key,delay,target\n"a"x,1,log\n', ("line 2", "quotes")),
        ("csv", "key,delay,target,attempts\na,1,log,many\n", ("line 2", "attempts")),
        ("csv", "key,delay,target,retry,attempts\na,1,log,often,3\n", ("line 2", "retry is 'often'")),
        ("csv", "key,delay,target,state\na,1,log,gone\n", ("line 2", "state is 'gone'")),
        ("csv", "name,delay\na,1\n", ("line 1: column is 'name'", "the columns are at, attempts")),
    ],
)
def test_lines_that_cannot_be_read(run, form, text, parts):
    """
    If a line cannot be read, the error names it, and nothing is imported.
    """
    answer = run("import", form, "-", stdin=text)
    assert answer.returncode == 2, answer.stderr
    for part in parts:
        assert part in answer.stderr
    assert len(answer.stderr) < 1_000
    assert run("list").stdout == ""


@pytest.mark.parametrize(
    "bad", ['{"key": "b", "delay": "soon", "target": "log"}', '{"key": "b", "delay": NaN, "target": "log"}']
)
def test_values_that_cannot_be_set(run, bad):
    """
    If a line has values that a job cannot have, the error names the line, and says how many jobs were set before it.
    """
    answer = run("import", "jsonl", "-", stdin=GOOD + bad)
    assert answer.returncode == 2
    assert "line 2: delay is" in answer.stderr
    assert "1 job set before it" in answer.stderr
    assert run("list").stdout.startswith("good\t")


def test_files_that_are_not_there(run, tmp_path):
    """
    If a file does not exist, the error names it, and no store is created.
    """
    for form in ("jsonl", "csv"):
        answer = run("import", form, "none.txt")
        assert answer.returncode == 2
        assert "none.txt" in answer.stderr
    assert run("export").returncode == 7
    assert list(tmp_path.iterdir()) == []
