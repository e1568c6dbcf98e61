"""
Durations as options of commands, and the options of `serve`.
"""

from __future__ import annotations

import pytest

from tickwheel.calendar.duration import from_text
from tickwheel.cli import migrate, serve, token, top, watch
from tickwheel.cli.lab import generate
from tickwheel.cli.values import DURATION
from tickwheel.scheduler import HistoryOptions


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
    A duration may be a number of seconds, numbers with units, or an ISO 8601 text.
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
    If a duration is out of range, the error has the limit.
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
    Every option that is a number of seconds also accepts a duration with units.
    """
    types = {option.name: option.type for option in command.command.params}
    read = {name: types[name].convert(text, None, None) for name, text in options.items()}
    assert read == {name: from_text(text) for name, text in options.items()}


def test_options_of_serve(run, monkeypatch):
    """
    The durations and history limits that are given to `serve` are passed to the scheduler and the service.
    """
    served = []
    monkeypatch.setattr("tickwheel.service.serve", lambda scheduler, options, _: served.append((scheduler, options)))
    monkeypatch.setattr("tickwheel.cli.logs.set_up", lambda *_, **__: None)
    times = ("--request-timeout", "1m", "--handler-timeout", "PT45M", "--every-min", "250ms")
    limits = ("--history", "all", "--history-days", "7", "--history-per-key", "5", "--history-total", "90")
    assert run("serve", *times, *limits).returncode == 0
    ((scheduler, options),) = served
    assert (options.request_timeout_s, options.every_min_s) == (60, 0.25)
    assert scheduler._core._options.timeout_s == 2700
    assert scheduler._core._options.history == HistoryOptions("all", 7 * 86_400.0, 5, 90)
    assert run("serve", "--history-total", "0").returncode == 2
    assert len(served) == 1
