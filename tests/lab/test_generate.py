"""
Generated loads depend only on their seed, are sorted by time, and have the documented properties.
"""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tickwheel.lab.clusters import CLUSTERS
from tickwheel.lab.generate import KINDS, Load, generate
from tickwheel.lab.replay import replay
from tickwheel.lab.trace import read_trace, write_trace
from tickwheel.wheels import HeapWheel

UNITS = {"s": 1, "h": 3_600, "d": 86_400}


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_is_a_trace(kind: str, tmp_path: Path) -> None:
    """
    A load is sorted by time, can be written and read like a trace, and is the same for the same seed.
    """
    load = Load(kind, seconds=20, size=200, seed=7)
    operations = list(generate(load))
    assert len(operations) > 100
    assert all(before.t_us <= after.t_us for before, after in pairwise(operations))
    assert 0 <= operations[0].t_us <= operations[-1].t_us < 20_000_000
    assert operations == list(generate(load))
    assert operations != list(generate(Load(kind, seconds=20, size=200, seed=8)))
    path = tmp_path / "load.csv.gz"
    write_trace(path, operations)
    assert read_trace(path) == operations


def test_connections_are_mostly_cancelled() -> None:
    """
    In a generated load of connections, traffic moves the idle timeout of a connection. Few timeouts fire.
    """
    counts = replay(generate(Load("connections", seconds=60, size=50)), HeapWheel()).counts
    assert counts.move > counts.set > 2_500
    assert counts.cancel > 0.8 * counts.set
    assert 0 < counts.fire < 0.2 * counts.set


def test_heartbeats_are_mostly_moved() -> None:
    """
    In a generated load of heartbeats, each client has one timer, which fires only if the client disappears.
    """
    counts = replay(generate(Load("heartbeats", seconds=600, size=300)), HeapWheel()).counts
    assert counts.peak_pending == 300
    assert counts.move > 10_000
    assert counts.cancel == 0
    assert 0 < counts.fired_within_span < 0.02 * counts.move


def test_cron_jobs_fire_on_the_minute() -> None:
    """
    Cron jobs are due at full minutes.

    Most of them are due at the full hour.
    """
    due = Counter(at.t_us + at.delay_us for at in generate(Load("cron-herd", seconds=7_300, size=1_000)))
    assert all(instant % 60_000_000 == 0 for instant in due)
    assert due.most_common(1)[0][0] % 3_600_000_000 == 0
    assert due[3_600_000_000] == 1_000


def test_a_cache_has_its_clusters_ttls() -> None:
    """
    A generated cache has the lifetimes, the deletes and the request rate of the cluster that it imitates.
    """
    for name, cluster in CLUSTERS.items():
        seconds = 20_000 / (cluster.rate * (cluster.writes + cluster.deletes))
        operations = list(generate(Load("ttl-cache", seconds=seconds, size=5_000, cluster=name)))
        assert 19_000 < len(operations) < 21_000
        writes = [operation.delay_us for operation in operations if operation.op == "S"]
        assert len(writes) / len(operations) == pytest.approx(
            cluster.writes / (cluster.writes + cluster.deletes), abs=0.02
        )
        total = sum(cluster.ttls.values())
        for ttl, share in cluster.ttls.items():
            assert writes.count(ttl * 1_000_000) / len(writes) == pytest.approx(share / total, abs=0.02)


def test_clusters_are_as_published(traces: Path) -> None:
    """
    The built-in facts about cache clusters equal the published table.
    """
    published = {row["cluster"]: row for row in json.loads((traces / "twitter_2020Mar_cluster_stats.json").read_text())}
    for name, cluster in CLUSTERS.items():
        row = published[name]
        shares = dict(part.split(":") for part in row["ops"].split())
        ttls = dict(part.split(":") for part in row["ttl"].replace(" ", "").strip(",").split(","))
        assert cluster.rate == float(row["kqps"]) * 1_000
        assert cluster.writes == sum(float(shares.get(op, 0)) for op in ("set", "add"))
        assert cluster.deletes == float(shares.get("delete", 0))
        assert cluster.zipf == float(row["zipf"])
        assert cluster.ttls == {int(ttl[:-1]) * UNITS[ttl[-1]]: float(share) for ttl, share in ttls.items()}


@pytest.mark.parametrize(
    ("load", "problem"),
    [
        (Load("rain"), "kind is 'rain': expected one of connections, heartbeats, ttl-cache, cron-herd"),
        (Load("ttl-cache", cluster="cluster0"), "cluster is 'cluster0': expected one of cluster4, "),
        (Load("heartbeats", size=0), "size is 0 "),
        (Load("heartbeats", seconds=0), "seconds 0:"),
        (Load("heartbeats", seconds=float("nan")), "seconds nan:"),
    ],
)
def test_loads_that_are_refused(load: Load, problem: str) -> None:
    """
    An impossible load is refused before the first operation.
    """
    with pytest.raises(ValueError, match=r"expected") as refusal:
        generate(load)
    assert problem in str(refusal.value)
