from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tickwheel.calendar import Dates, DayMatch, DstGap, DstOverlap, Step, time_of
from tickwheel.calendar.misfire import MISFIRE_GRACE_MS
from tickwheel.calendar.zone import check_zone
from tickwheel.errors import RecurrenceError
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError, InvalidRecurrenceError
from tickwheel.jobs.recurrence import Cron, Exclusion, Interval, Misfire, Overlap, Recurrence, Rule

if TYPE_CHECKING:
    from datetime import date

    from tickwheel.jobs.model import Job
    from tickwheel.jobs.requests import SetRequest
    from tickwheel.typing import Duration

__all__ = [
    "EXCLUDE_MAX",
    "RUNS_MAX",
    "check_once",
    "exclusions",
    "first_run",
    "interval_of",
    "no_run",
    "runs_found",
    "runs_of",
    "time_text",
]

EXCLUDE_MAX = 366
RUNS_MAX = 1 << 31
_GRACE_MIN_MS = 1_000
_LINES_MAX = 10
"""Maximum number of cron lines in exclusions. Each line costs about 40 us per instant."""
_PASSES_MAX = 1_000
"""Maximum number of excluded ranges that the search for a first run skips, in at most 50 ms."""
_OF_SERIES: Final = {
    "until": None,
    "max_runs": None,
    "misfire_grace": None,
    "overlap": None,
    "exclude": (),
    "misfire": "once",
    "jitter": 0,
    "tz": "UTC",
    "time": None,
    "day_match": None,
    "dst_gap": None,
    "dst_overlap": None,
    "pause_after": None,
}
"""Fields that only recurring jobs may have, with their defaults."""
_EVERY = "@every"
_DAY_MS: Final = 86_400_000
_NOISE_MS = 1e-6
"""Maximum rounding error, in ms, when float seconds are converted: 0.07 * 1000 is 70.00000000000001."""


def interval_of(every: Duration | None, cron: str | None) -> Duration | None:
    if every is None and isinstance(cron, str):
        alias, _, interval = cron.replace("\t", " ").strip().partition(" ")
        if interval and alias.lower() == _EVERY:
            return interval.strip()
    return every


def check_once(request: SetRequest) -> None:
    is_bare = request.until is None and request.max_runs is None and request.misfire_grace is None
    is_plain = request.overlap is None and not request.exclude and request.misfire == "once" and request.jitter == 0
    has_more = any((request.time, request.day_match, request.dst_gap, request.dst_overlap, request.pause_after))
    if is_bare and is_plain and request.tz == "UTC" and not has_more:
        return  # nearly all requests
    for name, usual in _OF_SERIES.items():
        value = getattr(request, name)
        is_usual = checks.seconds(name, value) == 0 if name == "jitter" else value in (usual, [])
        if not is_usual:
            raise InvalidJobError(name, value, "it is for recurring jobs: pass every= or cron=, or leave it out")


def first_run(
    request: SetRequest, key: str, start: int | None, now: int, latest: int | None = None
) -> tuple[int | None, str]:
    """
    Return the first due time and the canonical text of a recurring request. Its runs count from *start*, if given.

    An interval without a start counts from *latest*, the store's highest possible time, or from *now*. If the start of
    an interval has passed, its first run is due now. A cron line or calendar rule waits for its next match. The due
    time is None if `until=` excludes all runs; the text may still change an existing series.
    """
    rule = _rule(request, start, now if latest is None else latest)
    start = now + 1 if start is None else max(start, now)
    after = (rule.anchor_at if isinstance(rule, Interval) else start) - 1
    if checks.seconds("jitter", request.jitter) < 0:
        raise InvalidRecurrenceError("jitter", request.jitter, "pass seconds, 0 or more")
    recurrence = Recurrence(
        rule,
        checks.choice("misfire", request.misfire, Misfire),
        checks.delay_ms(request.jitter, "jitter"),
        _grace_ms(request),
        None if request.until is None else checks.at_ms(request.until, now, "until"),
        None if request.max_runs is None else checks.check_count("max_runs", request.max_runs, RUNS_MAX),
        exclude=exclusions(request.exclude, rule.tz),
        overlap=None if request.overlap is None else checks.choice("overlap", request.overlap, Overlap),
        pause_after=None
        if request.pause_after is None
        else checks.check_count("pause_after", request.pause_after, RUNS_MAX),
    )
    due = recurrence.nominal(after, range(_PASSES_MAX))
    if due is None or (recurrence.until is not None and recurrence.until < now):
        if request.until is not None:
            return None, recurrence.to_text()
        name = "every" if request.cron is None else "cron"
        raise InvalidRecurrenceError(name, getattr(request, name), "it does not fire within 50 years of its start")
    due_at = due + recurrence.shift_ms(key)
    if due_at < now:
        due_at, recurrence = now, replace(recurrence, nominal_at=due)
    return due_at, recurrence.to_text()


def _rule(request: SetRequest, start: int | None, now: int) -> Rule:
    every = interval_of(request.every, request.cron)
    if request.every is not None and request.cron is not None:
        raise InvalidRecurrenceError("every", request.every, "pass every= or cron=, not both")
    if request.day_match is not None and every is not None:
        raise InvalidRecurrenceError("day_match", request.day_match, "it is for lines of cron=: leave it out")
    if request.time is not None and every is None:
        raise InvalidRecurrenceError("time", request.time, "it is for every=: a line of cron= has its own times")
    gap = None if request.dst_gap is None else checks.choice("dst_gap", request.dst_gap, DstGap)
    overlap = None if request.dst_overlap is None else checks.choice("dst_overlap", request.dst_overlap, DstOverlap)
    with _refused():
        if every is None:
            match = request.day_match
            days = DayMatch.EITHER if match is None else checks.choice("day_match", match, DayMatch)
            line = Cron.parse(request.cron or "", request.tz, days)
            return replace(line, dst_gap=gap, dst_overlap=overlap)
        tz = check_zone(request.tz)
        if request.time is not None:
            begin = now + 1 if start is None else start
            return Dates.beginning(begin, _step(every), time_of(request.time), tz, gap=gap, overlap=overlap)
    for name, given in (("dst_gap", gap), ("dst_overlap", overlap)):
        if given is not None:
            remedy = "it is for times of the wall clock, and every= counts elapsed time: add time=, or leave it out"
            raise InvalidRecurrenceError(name, given.value, remedy)
    every_ms = _every_ms(every)
    return Interval(every_ms, now + 1 + every_ms if start is None else start, tz)  # 1 ms more: never early


def _step(every: Duration) -> Step:
    if isinstance(every, str) and (step := Step.of(every)) is not None:
        with _refused():
            return step.checked(every)
    days, rest = divmod(_every_ms(every), _DAY_MS)
    if rest:
        remedy = "with time= it is whole days, weeks or months, as in '3d', '2w' or '1 month'"
        raise InvalidRecurrenceError("every", every, remedy)
    with _refused():
        return Step(days, 0).checked(every)


def time_text(value: object) -> str:
    with _refused():
        return time_of(value).isoformat()


def no_run(until: object) -> InvalidRecurrenceError:
    return InvalidRecurrenceError("until", until, "no run is due until then: name a later instant")


def runs_of(job: Job, count: int, passes: Iterable[object] | None = None) -> Iterator[int]:
    yield job.due_at
    yield from Recurrence.from_text(job.recurrence or "").upcoming(job.key, job.due_at, count - 1, passes)


def runs_found(job: Job, count: int, passes: Iterable[object] | None = None) -> list[int]:
    found: list[int] = []
    with suppress(InvalidRecurrenceError):
        for run in runs_of(job, count, passes):
            found.append(run)  # noqa: PERF402  runs before an error are returned
    return found


def _grace_ms(request: SetRequest) -> int:
    grace = request.misfire_grace
    if grace is None:
        return MISFIRE_GRACE_MS
    if request.misfire != Misfire.SKIP:
        raise InvalidJobError("misfire_grace", grace, f"it bounds misfire='skip' only, not {request.misfire!r}")
    ms = checks.span_ms("misfire_grace", grace)
    if ms < _GRACE_MIN_MS:
        raise InvalidJobError("misfire_grace", grace, "pass at least 1 s: a busy node may be that late")
    return ms


def exclusions(texts: Sequence[str | date], tz: str) -> tuple[Exclusion, ...]:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidRecurrenceError("exclude", texts, "pass a list of days and cron lines, also for one")
    if len(texts) > EXCLUDE_MAX:
        what = f"there are {len(texts)}, and at most {EXCLUDE_MAX} are taken: join days, as in '2026-12-24/2027-01-02'"
        raise InvalidRecurrenceError("exclude", texts[EXCLUDE_MAX], what)
    with _refused():
        found = tuple(Exclusion.parse(each, tz) for each in texts)
    lines = [str(each) for each in found if each.line is not None]
    if len(lines) > _LINES_MAX:
        raise InvalidRecurrenceError("exclude", lines[_LINES_MAX], f"at most {_LINES_MAX} of them may be cron lines")
    return found


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except RecurrenceError as error:
        raise InvalidRecurrenceError(error.name, error.value, error.remedy) from None


def _every_ms(every: Duration) -> int:
    # a fraction is refused, because rounding would cause drift
    if isinstance(every, str) and (step := Step.of(every)) is not None and step.months:
        raise InvalidRecurrenceError(
            "every", every, "months have no fixed length: add time=, as in time='02:00', and tz="
        )
    ms = checks.span_ms("every", every)
    exact = checks.seconds("every", every) * 1000
    nearest = round(exact)
    if nearest < 1:
        raise InvalidRecurrenceError("every", every, "the least interval is 0.001 s")
    if abs(exact - nearest) > _NOISE_MS * nearest:
        raise InvalidRecurrenceError("every", every, f"instants are whole milliseconds: pass {ms / 1000}, for example")
    return nearest
