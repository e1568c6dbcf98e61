"""
A node runs a job only if it has the handler, target and rule of the job.

Other jobs wait for a node that has them.
"""

from __future__ import annotations

import importlib.resources
import json
import logging
import sys
import zoneinfo
from collections import Counter
from dataclasses import replace

import pytest

from tickwheel.calendar import _fields
from tickwheel.calendar.zone import zone_of
from tickwheel.jobs import unreadable as _unreadable
from tickwheel.jobs.model import Adopt, SetAside
from tickwheel.jobs.recurrence import Recurrence
from tickwheel.jobs.unreadable import unreadable_part
from tickwheel.scheduler import DeadLetter, Retry, RetryPolicy, Snooze
from tickwheel.stores import make_store, open_store
from tickwheel.targets.kafka import KafkaTarget


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    if request.param == "redis":
        return request.getfixturevalue("redis_server").empty_url()
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


class Zone:
    """
    A zone whose file can be installed and removed, as in different container images.
    """

    name = "Test/Zone"

    def __init__(self, folder):
        self._file = folder / "Test" / "Zone"
        self._file.parent.mkdir()
        self._bytes = importlib.resources.files("tzdata.zoneinfo").joinpath("Etc/GMT-1").read_bytes()

    def come(self):
        self._file.write_bytes(self._bytes)
        forget_zones()

    def become(self, name):
        """
        Install another release of the zone data.

        In this release, the zone has the rules of *name*.
        """
        self._file.write_bytes(importlib.resources.files("tzdata.zoneinfo").joinpath(name).read_bytes())
        forget_zones()

    def go(self):
        """
        Remove the zone, as in an image without its file.
        """
        self._file.unlink()
        forget_zones()


def forget_zones():
    """
    Forget the cached zones and cron lines, as in a new process.
    """
    zoneinfo.ZoneInfo.clear_cache()
    zone_of.cache_clear()
    Recurrence.from_text.cache_clear()
    for cached in (_unreadable._line_of, _fields._readers):
        cached.cache_clear()


@pytest.fixture
def zone(tmp_path):
    """
    Provide a time zone whose data is installed, in a folder that replaces the system's zone data.
    """
    before, folder = zoneinfo.TZPATH, tmp_path / "zones"
    folder.mkdir()
    zoneinfo.reset_tzpath(to=[str(folder)])
    found = Zone(folder)
    found.come()
    yield found
    zoneinfo.reset_tzpath(to=before)
    forget_zones()


@pytest.fixture
def cronsim(monkeypatch):
    """
    Return the library for cron lines. A test can remove and restore it.
    """

    class Library:
        def come(self):
            monkeypatch.delitem(sys.modules, "cronsim")
            forget_zones()

        def go(self):
            monkeypatch.setitem(sys.modules, "cronsim", None)
            forget_zones()

    return Library()


def every(zone, **more):
    """
    Return the fields of an interval that needs *zone*.
    """
    return {"every": 1, "tz": zone.name, "exclude": ["2041-05-01"], "misfire": "once", **more}


def waits(scheduler, key):
    """
    Wait until the job *key* is marked as unroutable, and return True.
    """
    job = scheduler.get(key)
    return job is not None and job.lacks_handler


@pytest.mark.parametrize("rule", ["cron", "every"])
def test_a_success_is_settled_though_its_zone_is_gone(make, url, zone, until, rule):
    """
    If the zone is removed during a run that succeeds, the success is still recorded, and the run is not repeated.

    The series continues on a node that has the zone.
    """
    scheduler, runs = make(url), []

    @scheduler.handler("h")
    def handler(_payload, firing):
        if len(runs) == 1:
            zone.go()
        runs.append((firing.job.generation, firing.attempt))

    given = {"cron": "* * * * * *", "tz": zone.name} if rule == "cron" else every(zone)
    scheduler.set("k", handler="h", max_runs=4, **given)
    scheduler.start()
    until(lambda: waits(scheduler, "k"))
    job = scheduler.get("k")
    assert (job.state, job.attempt, job.error, len(runs)) == ("pending", 0, None, 2)
    assert scheduler.stats()["waiting_for_handler"][0]["count"] == 1
    assert [each.outcome for each in scheduler.history("k")][:2] == ["succeeded", "succeeded"]
    zone.come()
    until(lambda: scheduler.get("k") is None)
    assert [attempt for _, attempt in runs] == [1] * 4
    assert len(set(runs)) == 4


@pytest.mark.parametrize("end", ["raise", "retry", "snooze", "last", "dead"])
def test_an_attempt_that_does_not_succeed_though_the_zone_is_gone(make, zone, until, end):
    """
    If the zone is removed during a run that fails, the attempt is counted. If the handler snoozes, it is not counted.

    A node that has the zone makes the next attempt.
    """
    scheduler, runs = make("memory://"), []
    results = {"retry": Retry(0), "snooze": Snooze(0), "dead": DeadLetter("no")}

    @scheduler.handler("h")
    def handler(_payload, firing):
        runs.append((firing.job.generation, firing.attempt))
        if len(runs) == 1:
            zone.go()
            if end in results:
                return results[end]
            message = "no"
            raise ValueError(message)
        return None

    retry = RetryPolicy(1 if end == "last" else 3, base_ms=0)
    scheduler.set("k", handler="h", retry=retry, max_runs=2, **every(zone))
    scheduler.start()
    if end == "dead":
        until(lambda: scheduler.stats()["dead"] == 1)
        return
    until(lambda: waits(scheduler, "k"))
    job = scheduler.get("k")
    assert (job.state, job.attempt, len(runs)) == ("pending", 1 if end in ("raise", "retry") else 0, 1)
    zone.come()
    until(lambda: scheduler.get("k") is None)
    (first, _), (second, attempt) = runs[:2]
    assert (second == first, attempt) == {
        "raise": (True, 2),
        "retry": (True, 2),
        "snooze": (True, 1),
        "last": (False, 1),
    }[end]
    assert len(runs) == (2 if end == "last" else 3)


@pytest.mark.parametrize("missing", ["zone", "cronsim", "cronsim of an exclusion"])
def test_a_job_with_an_unreadable_rule_waits(make, url, zone, cronsim, until, missing, caplog):  # noqa: PLR0917 fixtures
    """
    A node does not claim a job whose rule it cannot read, but it runs other jobs.

    The log names the missing zone, or the missing library for cron lines, once.
    """
    library = zone if missing == "zone" else cronsim
    client, runs = make(url), []
    rule = {"cron": "* * * * * *", "tz": zone.name}
    if missing == "cronsim of an exclusion":
        rule = {"every": 1, "exclude": ["* * * 1 1 *"]}
    for number in range(3):
        client.set(f"k{number}", handler="h", misfire="skip", **rule)
    client.stop()
    library.go()
    scheduler = make(url)
    if scheduler.get("k0") is None:  # a store in memory lasts only as long as its client
        library.come()
        for number in range(3):
            scheduler.set(f"k{number}", handler="h", misfire="skip", **rule)
        library.go()
    scheduler.handler("h")(lambda _payload, firing: runs.append(firing.job.key))
    with caplog.at_level(logging.WARNING, "tickwheel.scheduler"):
        scheduler.start()
        scheduler.set("beside", handler="h", every=1, max_runs=2)
        until(lambda: runs.count("beside") == 2)
        until(lambda: all(waits(scheduler, f"k{number}") for number in range(3)))
    assert set(runs) == {"beside"}
    assert len([each for each in caplog.records if "waits for a node that can run it" in each.message]) == 1
    assert ("Test/Zone" if missing == "zone" else "cron") in caplog.text
    library.come()
    until(lambda: {f"k{number}" for number in range(3)} <= set(runs))
    assert scheduler.stats()["dead"] == 0


def test_a_job_of_another_version_waits(make, url, until):
    """
    If the rule of a job has fields of a later version, a node does not run the job, and does not end the series.
    """
    store = make_store(url)
    scheduler = make(store)
    scheduler.handler("h")(lambda _: None)
    job = scheduler.set("k", handler="h", every=1).job
    scheduler.cancel("k")
    texts = [
        job.recurrence.replace("{", '{"annual":true,', 1),
        job.recurrence.replace('"misfire":"once"', '"misfire":"later"'),
        job.recurrence.replace("}", ',"overlap":"later"}'),
        '{"jitter_ms":0,"misfire":"once","rrule":"FREQ=DAILY"}',
    ]
    assert [unreadable_part(text) for text in texts] == [
        '"annual":',
        '"misfire":"later"',
        '"overlap":"later"',
        '"rrule":',
    ]
    store.apply([Adopt(replace(job, key=f"k{number}", recurrence=text)) for number, text in enumerate(texts)])
    scheduler.start()
    until(lambda: all(waits(scheduler, f"k{number}") for number in range(4)))
    assert [scheduler.get(f"k{number}").recurrence for number in range(4)] == texts
    assert scheduler.stats()["fired"] == 0


def other_texts(text):
    """
    Return stored rules that this version of tickwheel cannot read.

    Each rule is *text* with a wrong or unknown value, or has a zone that does not exist.
    """
    zoned = {"cron": "* * * * *", "jitter_ms": 0, "misfire": "once", "tz": "Zürich/Nowhere"}
    facts = json.loads(text)
    return {
        "escaped": json.dumps(zoned, separators=(",", ":")),
        "not escaped": json.dumps(zoned, separators=(",", ":"), ensure_ascii=False),
        "with blanks": json.dumps(zoned),
        "two parts": json.dumps(zoned | {"misfire": "later", "cron": "61 * * * *"}),
        "no rule": "every 5 s",
        "a list": "[1]",
        "an end as text": json.dumps(facts | {"until": "soon"}),
        "no interval": json.dumps(facts | {"every_ms": 0}),
        "backwards": json.dumps(facts | {"every_ms": -5}),
        "a fraction": json.dumps(facts | {"every_ms": 0.5}),
        "a count as text": json.dumps(facts | {"runs": "2"}),
        "an instant as text": json.dumps(facts | {"next_at": "noon"}),
        "half an end": json.dumps(facts | {"ended": [1, 2]}),
        "another definition": json.dumps(facts | {"then": "[2]"}),
    }


@pytest.mark.parametrize("url", ["sqlite", "postgres", "redis"], indirect=True)
def test_an_unreadable_job_is_marked_once(make, url, until):
    """
    A node marks a job with an unreadable rule as unroutable once.

    After that it does not claim the job again.
    """
    stores = [open_store(url) for _ in range(1 if url.startswith("sqlite") else 2)]
    asides = Counter()

    def counting(apply):
        def counted(writes):
            asides.update(write.job.key for write in writes if isinstance(write, SetAside))
            return apply(writes)

        return counted

    for store in stores:
        store.apply = counting(store.apply)
    nodes = [make(store) for store in stores]
    runs = []
    for node in nodes:
        node.handler("h")(lambda _, firing: runs.append(firing.job.key))
    job = nodes[0].set("k", handler="h", every=1).job
    nodes[0].cancel("k")
    due, texts = replace(job, due_at=job.due_at - 60_000), other_texts(job.recurrence)
    stores[0].apply([Adopt(replace(due, key=name, recurrence=text)) for name, text in texts.items()])
    for node in nodes:
        node.start()
    until(lambda: all(waits(nodes[0], name) for name in texts))
    for number in range(10 * len(nodes)):
        nodes[number % len(nodes)].set(f"{number}", delay=0, handler="h")
        until(lambda wanted=number + 1: len(runs) == wanted)
    found = [nodes[0].get(name) for name in texts]
    assert {(job.state, job.attempt, job.error) for job in found} == {("pending", 0, None)}
    assert set(runs) == {f"{number}" for number in range(10 * len(nodes))}
    assert {name: count for name, count in asides.items() if count > 2 * len(nodes)} == {}


def test_a_target_without_its_library(make, url, until, monkeypatch, caplog):
    """
    If a node lacks the library for the target of a job, the job waits for another node and uses no attempt.
    """
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    scheduler = make(url, targets={"kafka": KafkaTarget()})
    scheduler.start()
    scheduler.set("k", delay=0, target="kafka", handler="topic")
    until(lambda: waits(scheduler, "k"))
    job = scheduler.get("k")
    assert (job.state, job.attempt, job.error) == ("pending", 0, None)
    assert scheduler.stats()["waiting_for_handler"][0]["target"] == "kafka"
    assert "a library that the target 'kafka' needs is missing here" in caplog.text


@pytest.mark.parametrize("url", ["sqlite", "postgres", "redis"], indirect=True)
def test_jobs_that_became_unroutable_before_the_start(make, url, until, caplog):
    """
    If a job became unroutable under an earlier owner, a new owner without the job's handler logs this once.
    """
    earlier = make(url).start()
    earlier.set("k", delay=0, handler="typo")
    until(lambda: waits(earlier, "k"))
    earlier.stop()
    caplog.clear()
    make(url).start()
    until(lambda: "no handler 'typo' is registered here" in caplog.text)
    assert caplog.text.count("no handler 'typo'") == 1


HOUR = 3_600_000
RELEASES = {"an hour ahead": ("Etc/GMT-2", -1), "five behind": ("Etc/GMT+4", 5), "the other side": ("Etc/GMT-14", -13)}


@pytest.mark.parametrize(("name", "hours"), RELEASES.values(), ids=RELEASES)
@pytest.mark.parametrize("url", ["sqlite", "postgres", "redis"], indirect=True)
def test_new_data_of_a_zone_moves_the_next_run(make, url, zone, until, name, hours):  # noqa: PLR0917  fixtures
    """
    If a node starts with a new version of a zone's data, it computes the due times in that zone again.

    It changes no other due time.
    """
    before = make(url)
    kept = {"moved": {"cron": "0 9 1 * *"}, "paused": {"cron": "0 9 1 * *"}, "utc": {"cron": "0 9 1 * *", "tz": "UTC"}}
    kept |= {"every": {"every": 86_400}, "dense": {"cron": "* * * * *"}}
    for key, rule in kept.items():
        before.set(key, handler="h", **{"tz": zone.name, **rule})
    before.move("moved", delay=7 * 86_400.5)
    before.pause("paused")
    instants = {key: before.get(key).due_at for key in kept}
    line = {"cron": "0 9 15 */2 *", "tz": zone.name, "handler": "h", "expires": 600}
    first = {key: before.set(key, jitter=jitter, **line).job for key, jitter in (("z", 0), ("z with jitter", 1800))}
    dates = {"every": "60d", "time": "09:00", "tz": zone.name, "handler": "h", "expires": 600}
    first["dates"] = before.set("dates", delay="90d", **dates).job
    before.stop()
    zone.become(name)
    after = make(url).start()
    for key, job in first.items():
        until(lambda key=key, job=job: after.get(key).due_at == job.due_at + hours * HOUR)
        now = after.get(key)
        assert (now.generation, now.recurrence, now.attempt) == (job.generation, job.recurrence, 0)
        assert now.expires_at == job.expires_at + hours * HOUR
    assert {key: after.get(key).due_at for key in kept} == instants
