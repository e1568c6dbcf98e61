"""
The metrics for Prometheus, read by the parser of Prometheus.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine.figures import Figures
from tickwheel.jobs.model import Job
from tickwheel.observe.prometheus import Collector, buckets, exposition
from tickwheel.scheduler import LaneState, RetryPolicy, Scheduler, WaitReason
from tickwheel.testing import ManualClock

END_S = 20
FAR = 4_133_980_800
"""An instant in the year 2101, in seconds: later than the date of any test run, but less than 100 years ahead."""


@pytest.fixture
def stats():
    """
    Return the `stats` method of a scheduler with one successful, one dead and one pending job.
    """
    ends = threading.Semaphore(0)
    told = ("JobSucceeded", "JobDied")
    with Scheduler("memory://") as scheduler:
        scheduler.handler("works")(lambda _payload: None)
        scheduler.handler("fails")(lambda _payload: 1 / 0)
        scheduler.subscribe(lambda event: ends.release() if type(event).__name__ in told else None)
        scheduler.set("good", delay=0, handler="works")
        scheduler.set("bad", delay=0, handler="fails", retry=RetryPolicy(attempts=1))
        scheduler.set("far", at=FAR, target="log")
        assert ends.acquire(timeout=END_S)
        assert ends.acquire(timeout=END_S)
        yield scheduler.stats


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """
    Return the value of each sample, by the name of the metric and its labels.
    """
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for each in families
        for sample in each.samples
    }


def test_all_figures_are_exported(stats):
    """
    All figures in the stats of a scheduler are exported.

    They are: pending jobs, the next due time, results, lateness, commits, leases, the clock and the wheel.
    """
    kind, text = exposition(stats())
    found = samples(text)
    assert kind.startswith("text/plain")
    assert found["tickwheel_jobs", (("state", "pending"),)] == 1
    assert found["tickwheel_jobs", (("state", "dead"),)] == 1
    assert found["tickwheel_next_due_timestamp_seconds", ()] == FAR
    assert found["tickwheel_results_total", (("handler", "works"), ("result", "succeeded"), ("target", "handler"))] == 1
    assert found["tickwheel_results_total", (("handler", "fails"), ("result", "died"), ("target", "handler"))] == 1
    assert found["tickwheel_dead_total", ()] == found["tickwheel_failed_total", ()] == 1
    assert found["tickwheel_retried_total", ()] == 0
    assert found["tickwheel_lateness_seconds_bucket", (("le", "+Inf"),)] == 2
    assert found["tickwheel_lateness_seconds_count", ()] == 2
    assert found["tickwheel_lateness_seconds_sum", ()] > 0
    commits = found["tickwheel_commits_total", ()]
    assert found["tickwheel_commit_seconds_count", ()] == found["tickwheel_commit_size_count", ()] == commits > 0
    assert found["tickwheel_commit_size_sum", ()] == found["tickwheel_commit_writes_total", ()]
    assert found["tickwheel_shards_owned", ()] == found["tickwheel_shards", ()] == 1
    assert found["tickwheel_tails_owned", ()] == 0
    assert found["tickwheel_lease_renewals_total", ()] == found["tickwheel_lease_failures_total", ()] == 0
    assert found["tickwheel_clock_offset_seconds", ()] == 0
    assert 0 < found["tickwheel_wheel_slot_max", ()] <= found["tickwheel_wheel_pending", ()]
    assert found["process_open_fds", ()] > 0


def test_handlers_are_labels_up_to_a_bound():
    """
    Results are counted by handler and queue. At most two hundred names are labels, and addresses never are.
    """
    figures = Figures()
    job = Job("key", 0, 0, target="handler")
    for number in range(300):
        settle(figures, replace(job, handler=f"h{number}"))
    settle(figures, replace(job, target="webhook", handler="https://example.com/a"))
    settle(figures, replace(job, target="pull", handler="scans"))
    counts = {(each["target"], each["handler"]): each["succeeded"] for each in figures.by_handler()}
    assert counts["handler", "h199"] == 1
    assert counts["handler", "(others)"] == 100
    assert counts["webhook", ""] == counts["pull", "(others)"] == 1
    assert len(counts) == 203
    totals = {target: of["succeeded"] for target, of in figures.by_target().items()}
    assert totals == {"handler": 300, "webhook": 1, "pull": 1}


def settle(figures, job):
    """
    Count a successful firing of *job*.
    """
    entry = StagedJob(job, 1, job.due_at)
    figures.settled([entry], ())


def test_in_a_users_own_registry(stats):
    """
    If a collector is added to a user's own registry, the registry exports the metrics of the scheduler.
    """
    registry = CollectorRegistry()
    registry.register(Collector(stats))
    assert registry.get_sample_value("tickwheel_jobs", {"state": "pending"}) == 1
    assert registry.get_sample_value("tickwheel_wheel_fires_total") >= 0


def test_a_stopped_scheduler_exports_nothing():
    """
    A stopped scheduler exports nothing, but other schedulers in the same registry still export.
    """
    registry = CollectorRegistry()
    with Scheduler("memory://") as stopped, Scheduler("memory://") as running:
        registry.register(Collector(stopped.stats))
        stopped.stop()
        assert generate_latest(registry) == b""
        registry.register(Collector(running.stats))
        assert b"tickwheel_jobs" in generate_latest(registry)


def test_a_client_that_fires_nothing():
    """
    A scheduler that was not started exports the figures of the store, but no figures of leases or of a wheel.
    """
    scheduler = Scheduler("memory://")
    scheduler.set("far", delay=3600, target="log")
    found = samples(exposition(scheduler.stats())[1])
    scheduler.stop()
    assert found["tickwheel_jobs", (("state", "pending"),)] == 1
    assert found["tickwheel_shards_owned", ()] == 0
    assert not [name for name, _ in found if name.startswith(("tickwheel_lease_", "tickwheel_wheel_"))]


def test_buckets():
    """
    The export adds up the scheduler's fine steps of lateness to fewer buckets.

    A step that contains the edge of a bucket is counted above the edge.
    """
    assert buckets([[0.5, 1], [1.0, 2], [1.1, 3], [9.0, 4]], (1, 2)) == [(1, 3), (2, 3), (None, 4)]


def test_slot_max(stats):
    """
    The number of timers in the fullest slot of the wheel of jobs due soon is exported.
    """
    seen = dict(stats())
    seen["wheel"] = seen["wheel"] | {"levels": [(1024, 0, {3: 2, 5: 7}), (65536, 0, {})]}
    assert samples(exposition(seen)[1])["tickwheel_wheel_slot_max", ()] == 7


def test_circuits():
    """
    The number of receivers in each state of their circuit breaker is exported.

    The addresses of the receivers are not labels.
    """
    scheduler = Scheduler("memory://")
    seen = dict(scheduler.stats())
    scheduler.stop()
    assert samples(exposition(seen)[1])["tickwheel_circuits", (("state", "open"), ("target", "webhook"))] == 0
    states = ("open", "open", "half-open", "closed", "closed", "closed", "full")
    seen["targets"] = {"webhook": {f"https://{n}.example.com": {"state": state} for n, state in enumerate(states)}}
    text = exposition(seen)[1]
    found = {labels[0][1]: value for (name, labels), value in samples(text).items() if name == "tickwheel_circuits"}
    assert found == {"open": 2, "half-open": 1, "failing": 3, "full": 1}
    assert b"example.com" not in text


def stats_with(scheduler, is_so):
    """
    Wait until `is_so(stats)` is true, and return the stats.
    """
    end = time.monotonic() + END_S
    while not is_so(stats := scheduler.stats()):
        assert time.monotonic() < end, stats
    return stats


def test_a_pull_queue_without_a_worker():
    """
    A job that waits for a worker is counted with its queue. It does not count as the scheduler's next due job.
    """
    with Scheduler("memory://") as scheduler:
        first = scheduler.set("first", delay=0, target="pull", handler="scans").job
        scheduler.set("second", delay=0, target="pull", handler="scans")
        scheduler.set("far", at=FAR, target="log")
        found = samples(exposition(stats_with(scheduler, lambda stats: waiting(stats) == 2))[1])
        assert found["tickwheel_pull_waiting", (("queue", "scans"),)] == 2
        assert found["tickwheel_pull_oldest_due_timestamp_seconds", (("queue", "scans"),)] == first.due_at / 1000
        assert found["tickwheel_next_due_timestamp_seconds", ()] == FAR
        for _ in range(2):
            (lease,) = scheduler.lease("scans", wait=END_S)
            scheduler.ack(lease.fire_id)
        assert waiting(scheduler.stats()) == 0


def waiting(stats) -> int:
    """
    Return the number of jobs that wait in the queue "scans".
    """
    return stats["pull"].get("scans", {"waiting": 0})["waiting"]


def test_a_job_without_a_worker_in_its_own_millisecond():
    """
    A job that waits for a worker does not count as the next due job, even in its first millisecond.
    """
    with Scheduler("memory://", clock=ManualClock(wall=1_700_000_000.0)) as scheduler:
        scheduler.set("now", delay=0, target="pull", handler="scans")
        far = scheduler.set("far", delay=3600, target="log").job
        assert stats_with(scheduler, lambda stats: waiting(stats) == 1)["next_due_at"] == far.due_at


def test_jobs_that_wait_beside_a_pull_queue():
    """
    If a job is overdue because its handler has reached its limit, it counts as the next due job.

    A job in a pull queue does not count, even if it is due earlier.
    """
    begun, end = threading.Event(), threading.Event()
    with Scheduler("memory://") as scheduler:

        @scheduler.handler("narrow", concurrency=1)
        def narrow(_payload):
            begun.set()
            end.wait(END_S)

        try:
            pulled = scheduler.set("pulled", delay=0, target="pull", handler="scans").job
            scheduler.set("busy", delay=0, handler="narrow")
            assert begun.wait(END_S)
            while time.time() * 1000 <= pulled.due_at + 1:  # so that the next one is due later than this
                time.sleep(0.001)  # no signal reports that a millisecond has passed
            late = scheduler.set("late", delay=0, handler="narrow").job
            stats = stats_with(scheduler, lambda stats: waiting(stats) and stats["next_due_at"] == late.due_at)
            assert stats["pull"]["scans"]["oldest_due_at"] < late.due_at
        finally:
            end.set()


def test_pull_queues():
    """
    For each queue, the numbers of its leased and waiting jobs are exported. Only a hundred queues are named.
    """
    with Scheduler("memory://") as scheduler:
        scheduler.set("one", delay=0, target="pull", handler="scans")
        (lease,) = scheduler.lease("scans", wait=END_S)
        found = samples(exposition(scheduler.stats())[1])
        assert [found[f"tickwheel_pull_{name}", (("queue", "scans"),)] for name in ("ready", "leased", "workers")] == [
            0,
            1,
            0,
        ]
        scheduler.ack(lease.fire_id)
        seen = dict(scheduler.stats())
        assert seen["pull"] == {}
    seen["pull"] = {
        f"queue {n:03}": {"waiting": 1, "oldest_due_at": n or None, "ready": n, "leased": 1, "workers": 2}
        for n in range(103)
    }
    found = samples(exposition(seen)[1])
    assert found["tickwheel_pull_ready", (("queue", "queue 099"),)] == 99
    assert found["tickwheel_pull_ready", (("queue", "(others)"),)] == 100 + 101 + 102
    assert found["tickwheel_pull_workers", (("queue", "(others)"),)] == 6
    assert found["tickwheel_pull_oldest_due_timestamp_seconds", (("queue", "(others)"),)] == 0.1
    assert ("tickwheel_pull_oldest_due_timestamp_seconds", (("queue", "queue 000"),)) not in found
    assert len([name for name, _ in found if name == "tickwheel_pull_leased"]) == 101


def test_lanes():
    """
    The figures of each lane (handler, queue or receiver) are exported, with the reason if its jobs wait.
    """
    with Scheduler("memory://") as scheduler:
        stats = scheduler.stats()
    states = [
        LaneState("handler:mail", WaitReason.RATE, 30, 20, 1, 5_000, is_full=True),
        LaneState("pull:video", WaitReason.NO_WORKER, 3, 3, 0, 7_500),
        LaneState("(others)", None, 40, 0, 2),
    ]
    stats["lanes"] = [asdict(state) for state in states]
    families = {family.name: family.samples for family in text_string_to_metric_families(exposition(stats)[1].decode())}

    def rows(name):
        return {tuple(sample.labels.values()): sample.value for sample in families[f"tickwheel_lane_{name}"]}

    assert rows("staged") == {("handler:mail",): 30, ("pull:video",): 3, ("(others)",): 40}
    assert rows("waiting") == {("handler:mail",): 20, ("pull:video",): 3, ("(others)",): 0}
    assert rows("running") == {("handler:mail",): 1, ("pull:video",): 0, ("(others)",): 2}
    assert rows("oldest_due_timestamp_seconds") == {("handler:mail",): 5.0, ("pull:video",): 7.5}
    assert rows("held") == {("handler:mail", "rate"): 1, ("pull:video", "no_worker"): 1}
    assert rows("full") == {("handler:mail", "rate"): 1}
