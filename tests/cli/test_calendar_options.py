"""
Command-line options for calendar rules.
"""

from __future__ import annotations

import json

from years import YEAR


def test_the_options_on_the_command_line(run):
    """
    The options for calendar rules work with `set`, `change`, `schedule next`, `schedule list`, `export` and `import`.
    """
    run(
        "set",
        "pay",
        "--every",
        "1 month",
        "--time",
        "06:00",
        "--tz",
        "Asia/Tokyo",
        "--pause-after",
        "3",
        "--target",
        "log",
    )
    run("set", "both", "--cron", "0 9 13 * FRI-SAT", "--day-match", "both", "--dst-gap", "skip", "--target", "log")
    assert run("change", "pay", "--time", "07:30", "--dst-overlap", "both").stdout.startswith("changed")
    listed = run("schedule", "list").stdout
    assert "every 1 month at 07:30 in Asia/Tokyo, doubled times: both, paused after 3 failures in a row" in listed
    assert "0 9 13 * FRI-SAT in UTC, where day and weekday match, skipped times: left out" in listed
    lines = run("export").stdout
    before = [json.loads(run("get", key, "--json").stdout)["recurrence"] for key in ("both", "pay")]
    run("cancel", "pay")
    run("cancel", "both")
    run("import", "jsonl", "-", stdin=lines)
    assert [json.loads(run("get", key, "--json").stdout)["recurrence"] for key in ("both", "pay")] == before
    shown = run(
        "schedule", "next", "--every", "2w", "--time", "9:30", "--at", f"{YEAR}-01-03T00:00Z", "--count", "2"
    ).stdout
    assert [line[:16].replace("T", " ") for line in shown.splitlines()] == [
        f"{YEAR}-01-03 09:30",
        f"{YEAR}-01-17 09:30",
    ]
