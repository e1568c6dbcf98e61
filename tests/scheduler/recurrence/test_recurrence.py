"""
Intervals, missed runs, jitter, and the text in which a recurrence is stored.
"""

import itertools
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tickwheel.jobs.errors import RecurrenceError
from tickwheel.jobs.recurrence import Cron, Exclusion, Interval, Misfire, Overlap, Recurrence

NOON = 1_700_000_000_000
MINUTELY = Interval(60_000, NOON)


def test_interval_keeps_its_phase():
    """
    However late a run ends, the next due time is a whole number of intervals after the first due time.
    """
    assert MINUTELY.next(NOON) == NOON + 60_000
    assert MINUTELY.next(NOON + 59_999) == NOON + 60_000
    assert MINUTELY.next(NOON + 60_000) == NOON + 120_000
    assert MINUTELY.next(NOON - 1) == NOON
    assert MINUTELY.next(NOON - 60_001) == NOON - 60_000


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [(Misfire.ONCE, NOON + 300_000), (Misfire.SKIP, NOON + 300_000), (Misfire.ALL, NOON + 60_000)],
)
def test_following_a_late_run(misfire, expected):
    """
    After a run that ended four minutes late, the next due time of the policies `once` and `skip` is in the future.

    The policy `all` continues with the missed run.
    """
    assert Recurrence(MINUTELY, misfire).following("k", NOON, NOON + 240_000, NOON + 240_000) == (expected, None)


@pytest.mark.parametrize("misfire", Misfire)
def test_following_a_timely_run(misfire):
    """
    After a run that was on time, every misfire policy gives the same next due time.
    """
    assert Recurrence(MINUTELY, misfire).following("k", NOON, NOON, NOON + 5) == (NOON + 60_000, None)


@pytest.mark.parametrize("misfire", Misfire)
@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (None, None),
        (Overlap.SKIP, (NOON + 240_000, None)),
        (Overlap.ONCE, (NOON + 200_000, None)),
        (Overlap.CANCEL, (NOON + 200_000, None)),
        (Overlap.ALL, (NOON + 200_000, NOON + 60_000)),
    ],
)
def test_following_a_long_run(misfire, overlap, expected):
    """
    After a run that lasted past three due times, the overlap policy decides the next run and its nominal time.
    """
    if expected is None:
        expected = (NOON + 240_000, None)
    if misfire is Misfire.ALL and overlap in (None, Overlap.ALL):
        expected = (NOON + 60_000, None)
    assert Recurrence(MINUTELY, misfire, overlap=overlap).following("k", NOON, NOON + 5, NOON + 200_000) == expected


@pytest.mark.parametrize("misfire", [Misfire.ONCE, Misfire.SKIP])
def test_all_due_times_that_pass_during_a_run(misfire):
    """
    With the misfire policy `all`, each due time that passes during a run gets its own run.

    Such a run is not treated as missed.
    """
    series = Recurrence(MINUTELY, misfire, grace_ms=1_000, overlap=Overlap.ALL)
    due_at, begun, ended, runs = NOON, NOON, NOON + 200_000, []
    for _ in range(4):
        due_at, series = series.after_run("k", due_at, begun, ended, has_run=True)
        runs.append((due_at - NOON, series.run_at and series.run_at - NOON))
        assert Recurrence.from_text(series.to_text()) == series
        assert not series.is_missed(due_at, due_at + 5)
        begun, ended = due_at + 5, due_at + 10
    assert runs == [(200_000, 60_000), (200_010, 120_000), (200_020, 180_000), (240_000, None)]


def test_missed_due_times_are_not_overlap():
    """
    Due times before the start of a late run are missed. They are not overlap.

    Due times between two attempts of a run are overlap.
    """
    series = Recurrence(MINUTELY, overlap=Overlap.ONCE)
    late = (NOON, NOON + 150_000, NOON + 170_000)
    assert series.following("k", *late) == (NOON + 180_000, None)
    assert series.postponed("k", NOON, NOON).following("k", *late) == (NOON + 170_000, None)


def test_when_a_run_is_overtaken():
    """
    Only the overlap policy `cancel` stops a run at the next due time.

    A retry of the run is stopped at the same due time.
    """
    series = Recurrence(MINUTELY, overlap=Overlap.CANCEL)
    assert series.overtaken_at("k", NOON, NOON) == NOON + 60_000
    assert series.postponed("k", NOON, NOON).overtaken_at("k", NOON + 59_000, NOON + 59_000) == NOON + 60_000
    # a due time before the start of the run does not stop it
    assert series.overtaken_at("k", NOON, NOON + 130_000) == NOON + 180_000
    assert [
        Recurrence(MINUTELY, overlap=each).overtaken_at("k", NOON, NOON) for each in (None, "skip", "once", "all")
    ] == [None] * 4


def test_missed_runs():
    """
    Only the misfire policy `skip` omits a late run, and only if the run is later than the grace time.
    """
    assert not Recurrence(MINUTELY, Misfire.SKIP).is_missed(NOON, NOON + 60_000)
    assert Recurrence(MINUTELY, Misfire.SKIP).is_missed(NOON, NOON + 60_001)
    assert not Recurrence(MINUTELY, Misfire.ONCE).is_missed(NOON, NOON + 10**9)


def test_the_grace():
    """
    With the misfire policy `skip`, a run that is late by at most the grace time of its recurrence takes place.
    """
    patient = Recurrence(MINUTELY, Misfire.SKIP, grace_ms=3_600_000)
    assert not patient.is_missed(NOON, NOON + 3_600_000)
    assert patient.is_missed(NOON, NOON + 3_600_001)


@pytest.mark.parametrize("misfire", Misfire)
def test_until(misfire):
    """
    A run takes place if its time without jitter equals the end of the series, even if jitter delays it past the end.

    A run whose time without jitter is after the end does not take place.
    """
    series = Recurrence(MINUTELY, misfire, jitter_ms=30_000, until=NOON + 120_000)
    shift = series.shift_ms("k")
    assert list(series.upcoming("k", NOON, 5)) == [NOON + each + shift for each in (0, 60_000, 120_000)][shift == 0 :]
    last = NOON + 120_000 + shift
    assert series.following("k", last - 60_000, last - 60_000, last - 60_000) == (last, None)
    assert series.after_run("k", last, last, last, has_run=True)[0] is None


def test_max_runs():
    """
    With `max_runs`, finished runs are counted, but skipped runs are not.

    After the last run there are no more runs.
    """
    series = Recurrence(MINUTELY, max_runs=2)
    assert list(series.upcoming("k", NOON, 5)) == [NOON + 60_000]
    assert series.after_run("k", NOON, NOON, NOON, has_run=False) == (NOON + 60_000, series)
    due_at, rest = series.after_run("k", NOON, NOON, NOON + 5, has_run=True)
    assert (due_at, rest) == (NOON + 60_000, Recurrence(MINUTELY, max_runs=2, runs=1))
    assert rest.after_run("k", due_at, due_at, due_at, has_run=True)[0] is None


def test_all_continues_after_a_retried_run():
    """
    With the misfire policy `all`, a retried run is followed by the first due time that passed during its retries.
    """
    series = Recurrence(MINUTELY, Misfire.ALL)
    postponed = series.postponed("k", NOON, NOON).postponed("k", NOON + 90_000, NOON + 90_000)
    assert postponed == Recurrence(MINUTELY, Misfire.ALL, run_at=NOON, nominal_at=NOON)
    begun = NOON + 200_000
    assert postponed.after_run("k", begun, begun, begun + 1, has_run=True) == (NOON + 60_000, replace(series, runs=1))
    again = Recurrence(MINUTELY).postponed("k", NOON, NOON)
    assert again == Recurrence(MINUTELY, next_at=NOON, nominal_at=NOON)
    assert again.postponed("k", NOON + 7, NOON + 7) == again
    once_more = (NOON + 60_000, Recurrence(MINUTELY, runs=1))
    assert again.after_run("k", NOON + 9, NOON + 9, NOON + 9, has_run=True) == once_more


@pytest.mark.parametrize("misfire", Misfire)
def test_a_run_now_before_the_pending_due_time(misfire):
    """
    After a `run_now`, the series continues with the due time that was already pending.

    This holds even if the rule has an earlier due time.
    """
    begun, pending = NOON + 10_000, NOON + 150_000
    series, ahead = Recurrence(MINUTELY, misfire), Recurrence(MINUTELY, misfire, next_at=pending)
    goes_on = (pending, replace(series, runs=1))
    assert ahead.after_run("k", begun, begun, begun + 1, has_run=True) == goes_on
    assert list(ahead.upcoming("k", begun, 3)) == [pending, NOON + 180_000, NOON + 240_000]
    again = ahead.postponed("k", begun, begun)
    assert again.after_run("k", NOON + 70_000, NOON + 70_000, NOON + 70_001, has_run=True) == goes_on
    stopping = Recurrence(MINUTELY, misfire, next_at=pending, overlap=Overlap.CANCEL)
    assert stopping.overtaken_at("k", begun, begun) == pending
    assert stopping.overtaken_at("k", begun, pending) == NOON + 180_000
    last = Recurrence(MINUTELY, misfire, next_at=pending, max_runs=1)
    assert last.after_run("k", begun, begun, begun, has_run=True)[0] is None


@pytest.mark.parametrize(
    ("misfire", "overlap", "expected"),
    [
        (Misfire.ONCE, None, (NOON + 180_000, None)),
        (Misfire.ALL, Overlap.SKIP, (NOON + 180_000, None)),
        (Misfire.ONCE, Overlap.ONCE, (NOON + 160_000, None)),
        (Misfire.ONCE, Overlap.ALL, (NOON + 160_000, NOON + 150_000)),
        (Misfire.ALL, None, (NOON + 150_000, None)),
    ],
)
def test_a_run_now_that_lasts_past_the_pending_due_time(misfire, overlap, expected):
    """
    If a `run_now` lasts past the pending due time, that due time is overlap. Earlier due times are not overlap.
    """
    ahead = Recurrence(MINUTELY, misfire, next_at=NOON + 150_000, overlap=overlap)
    assert ahead.following("k", NOON + 10_000, NOON + 10_000, NOON + 160_000) == expected
    assert ahead.following("k", NOON + 160_000, NOON + 160_000, NOON + 160_000)[0] == NOON + 180_000


def test_the_length_of_a_run_that_is_tried_again():
    """
    The time to expiry of a run is measured from its first attempt, so a retry does not change it.

    The next run has the same time to expiry.
    """
    series = Recurrence(MINUTELY)
    postponed = series.postponed("k", NOON, NOON, 5_000).postponed("k", NOON + 4_000, NOON + 4_000, 1_000)
    assert postponed == Recurrence(MINUTELY, nominal_at=NOON, expires_ms=5_000)
    goes_on = (NOON + 60_000, replace(series, runs=1))
    assert postponed.after_run("k", NOON + 4_500, NOON + 4_500, NOON + 4_600, has_run=True) == goes_on


def test_a_clock_that_was_set():
    """
    If the clock is set, the phase and the pending run of an interval shift with it.

    A calendar rule and the end of a series do not shift.
    """
    assert Recurrence(MINUTELY, next_at=NOON).moved(7).next_at == NOON + 7
    series = Recurrence(MINUTELY, Misfire.ALL, until=NOON, run_at=NOON)
    assert series.moved(7) == Recurrence(Interval(60_000, NOON + 7), Misfire.ALL, until=NOON, run_at=NOON + 7)
    by_calendar = Recurrence(Cron.parse("@daily"), Misfire.ALL, run_at=NOON)
    assert by_calendar.moved(7) is by_calendar


def test_runs_end_with_the_calendar():
    """
    A forecast ends before the year 10000, which no `datetime` can represent.
    """
    century = Recurrence(Interval(100 * 365 * 86_400_000, NOON))
    runs = list(century.upcoming("k", NOON, 1000))
    assert 70 < len(runs) < 90
    assert datetime.fromtimestamp(runs[-1] / 1000, UTC).year > 9890


def test_jitter_is_stable_and_spread():
    """
    The jitter of a key is always the same and at most the maximum, and many keys cover the whole range.
    """
    recurrence = Recurrence(MINUTELY, jitter_ms=10_000)
    shifts = [recurrence.shift_ms(f"key-{n}") for n in range(1000)]
    assert shifts == [recurrence.shift_ms(f"key-{n}") for n in range(1000)]
    assert all(0 <= shift <= 10_000 for shift in shifts)
    assert min(shifts) < 500
    assert max(shifts) > 9_500
    assert 4_500 < sum(shifts) / 1000 < 5_500


def test_jitter_moves_each_run_alike():
    """
    With jitter, successive due times are still one interval apart, even if the jitter is longer than the interval.
    """
    for jitter_ms in (30_000, 500_000):
        instants = list(Recurrence(MINUTELY, jitter_ms=jitter_ms).upcoming("some key", NOON, 5))
        assert [later - earlier for earlier, later in itertools.pairwise(instants)] == [60_000] * 4


@pytest.mark.parametrize(
    "recurrence",
    [
        Recurrence(MINUTELY, Misfire.SKIP, 5),
        Recurrence(Cron.parse("0 9 * * mon-fri", "Europe/Berlin"), Misfire.ALL),
        Recurrence(MINUTELY, Misfire.SKIP, 5, grace_ms=1_000, until=NOON, max_runs=3, runs=2, nominal_at=5, then="x"),
        Recurrence(MINUTELY, Misfire.ALL, run_at=NOON, next_at=NOON + 5),
        Recurrence(MINUTELY, expires_ms=5),
        Recurrence(Interval(60_000, NOON, "Asia/Tokyo")),
        Recurrence(MINUTELY, exclude=(Exclusion.parse("2041-05-01"),)),
    ],
)
def test_text(recurrence):
    """
    The stored text of a recurrence is parsed to an equal recurrence.

    The text does not depend on how the recurrence was built.
    """
    text = recurrence.to_text()
    assert Recurrence.from_text(text) == recurrence
    assert Recurrence.from_text(text).to_text() == text


def test_the_zone_of_an_interval():
    """
    The text of an interval contains its zone if the zone is not UTC.
    """
    text = Recurrence(MINUTELY).to_text()
    assert "tz" not in text
    assert Recurrence.from_text(text).rule.tz == "UTC"
    assert '"tz":"Asia/Tokyo"' in Recurrence(Interval(60_000, NOON, "Asia/Tokyo")).to_text()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"cron":1}', '{"every_ms":1,"anchor_at":1,"misfire":"x","jitter_ms":0}']
)
def test_unreadable_text(text):
    """
    If the stored text of a recurrence does not have the form that tickwheel writes, the error names the remedy.
    """
    with pytest.raises(RecurrenceError, match="set the job again"):
        Recurrence.from_text(text)


def berlin(*texts):
    """
    Return exclusions in Berlin's time zone.
    """
    return tuple(Exclusion.parse(text, "Europe/Berlin") for text in texts)


def test_exclusions():
    """
    Every kind of rule omits excluded instants.

    The text of the rule contains the exclusions with their zone.
    """
    nine = Cron.parse("0 9 * * *", "Europe/Berlin")
    recurrence = Recurrence(nine, exclude=berlin("* * * * SAT,SUN", "2026-12-24/2027-01-02"))
    start = int(datetime(2026, 12, 22, 12, tzinfo=UTC).timestamp()) * 1000
    days = [
        datetime.fromtimestamp(each / 1000, UTC).strftime("%m-%d %H") for each in recurrence.upcoming("k", start, 3)
    ]
    assert days == ["12-23 08", "01-04 08", "01-05 08"]
    assert Recurrence.from_text(recurrence.to_text()) == recurrence
    minutely = Recurrence(Interval(60_000, NOON, "Europe/Berlin"), exclude=berlin("* 0-22 * * *"))
    assert [datetime.fromtimestamp(each / 1000, UTC).hour for each in minutely.upcoming("k", NOON, 60)] == [22] * 60
    assert Recurrence.from_text(minutely.to_text()) == minutely


@pytest.mark.parametrize("misfire", Misfire)
def test_no_misfire_brings_an_excluded_run_back(misfire):
    """
    An excluded instant never counts as missed.

    After an outage, the misfire policy `all` begins with the first missed run that is not excluded.
    """
    recurrence = Recurrence(MINUTELY, misfire, exclude=berlin("2023-11-14/2023-11-20"))
    after = int(datetime(2023, 11, 20, 23, tzinfo=UTC).timestamp()) * 1000
    assert recurrence.following("k", NOON, NOON + 600_000, NOON + 600_000) == (after + 20_000, None)


@pytest.mark.parametrize(
    ("line", "exclude"),
    [
        ("*/5 * * * *", "*/5 * * * SAT,SUN"),
        ("*/5 * * * *", "0-59 * * * SAT,SUN"),
        ("*/5 * * * * *", "*/1 * * * * SAT,SUN"),
        ("*/5 * * * * *", "*/5 * * * * SAT,SUN"),
        (None, "*/5 * * * SAT,SUN"),
        (None, "* 0-59 0-23 * * SAT,SUN"),
    ],
)
def test_excluded_weekends_are_passed(line, exclude):
    """
    A series that excludes weekends continues on Monday after its run on Friday, whichever cron lines exclude them.
    """
    rule = Interval(300_000, NOON - 500_000) if line is None else Cron.parse(line, "Europe/Berlin")
    zone = ZoneInfo("Europe/Berlin")
    friday = int(datetime(2023, 11, 17, 23, 59, 59, tzinfo=zone).timestamp()) * 1000
    monday = int(datetime(2023, 11, 20, tzinfo=zone).timestamp()) * 1000
    assert Recurrence(rule, exclude=berlin(exclude)).next("k", friday) == monday


ODD_AND_EVEN = ("*/2 * * 14-20 * *", "1-59/2 * * 14-20 * *")
"""Two cron lines that together exclude every instant of a week, in 600,000 separate intervals."""


@pytest.mark.parametrize("exclude", [("* * * * *",), ("*/2 * * * *", "1-59/2 * * * *"), ODD_AND_EVEN])
def test_a_search_that_finds_nothing(exclude):
    """
    If exclusions leave no run to find, the search for the next run soon gives up with an error.

    A forecast first lists the runs before the exclusions, and then raises this error.
    """
    recurrence = Recurrence(Interval(1_000, NOON), exclude=berlin(*exclude), overlap=Overlap.CANCEL)
    with pytest.raises(RecurrenceError, match="no run is found in 50 years, or too many stretches: exclude less"):
        recurrence.nominal(NOON)
    assert recurrence.overtaken_at("k", NOON, NOON) is None
    before = Recurrence(Interval(1_000, 0), exclude=berlin(*ODD_AND_EVEN))
    found = []
    with pytest.raises(RecurrenceError):
        found.extend(before.upcoming("k", NOON - 86_400_000, 86_400))
    monday = datetime(2023, 11, 14, tzinfo=ZoneInfo("Europe/Berlin"))
    assert found[-1] == int(monday.timestamp()) * 1000 - 1000


def test_exclusions_that_remove_all_remaining_runs():
    """
    A series is over if exclusions remove all runs before its end.
    """
    assert Recurrence(MINUTELY, exclude=berlin("2023-11-14/2023-11-20"), until=NOON + 1).nominal(NOON) is None


def test_exclusions_at_the_end_of_the_calendar():
    """
    In the year 9999, where the end of an exclusion cannot be computed, nothing is excluded.
    """
    century = Recurrence(Interval(100 * 365 * 86_400_000, NOON), exclude=berlin("* * 31 12 *"))
    assert 70 < len(list(century.upcoming("k", NOON, 1000))) < 90
