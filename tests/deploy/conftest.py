"""
Fixtures: the folder `deploy/`, and the metrics that tickwheel exports.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tickwheel.observe.prometheus import exposition
from tickwheel.scheduler import LaneState, Scheduler, WaitReason

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def deploy() -> Path:
    return ROOT / "deploy"


@pytest.fixture(scope="session")
def exported() -> dict[str, set[str]]:
    """
    Return the labels of every metric that a scheduler can export, by the name of the metric.
    """
    with Scheduler("memory://") as scheduler:
        scheduler.set("far", delay=3600, target="log")
        stats = scheduler.stats()
    stats["leases"] = {"renewals": 1, "failures": 0, "trusted_s": 2.0}
    stats["targets"] = {"webhook": {"https://example.com": {"state": "open"}}}
    stats["pull"] = {"scans": {"waiting": 3, "oldest_due_at": 5, "ready": 0, "leased": 1, "workers": 2}}
    stats["waiting_for_handler"] = [{"target": "handler", "handler": "mail", "count": 1, "since": 0}]
    stats["paused_scopes"] = [{"scope": "handler:mail", "count": 3}]
    stats["leaked"] = [{"target": "handler", "handler": "mail", "executor": "thread", "count": 2}]
    stats["lanes"] = [asdict(LaneState("handler:mail", WaitReason.RATE, 3, 2, 1, 5, is_full=True))]
    stats["rejections"] = {"missing": 1}
    stats["by_handler"] = [{"target": "handler", "handler": "mail", "succeeded": 1}]
    families = text_string_to_metric_families(exposition(stats)[1].decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}
