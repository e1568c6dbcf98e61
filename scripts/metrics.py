"""
Write the page `metrics` of the site: every metric that `/metrics` and the collector export.

    python scripts/metrics.py > metrics.md
"""

from __future__ import annotations

from tickwheel.observe.prometheus import families
from tickwheel.scheduler import Scheduler

HEAD = """# Metrics

The figures at `/metrics` of a service, and of `Collector` in `tickwheel.observe.prometheus` in a program of your own.
[Operations](operations.md) says which of them to look at first, and `deploy/alerts.yml` has the alerts.

Each process exports its own; what is about the jobs of the store, such as `tickwheel_jobs`, is the same in all of them.
The service adds those of the process that `prometheus_client` has, such as `process_cpu_seconds_total`.

| name | type | labels | what it is |
|---|---|---|---|"""


def main() -> None:
    """
    Print the page, with the names, types, labels and descriptions of all metrics.
    """
    with Scheduler("memory://") as scheduler:
        scheduler.set("far", delay="1h", target="log")
        stats = scheduler.stats()
    leases = {"renewals": 0, "failures": 0, "trusted_s": 1.0}
    for family in sorted(families(stats | {"leases": leases, "rejections": {}}), key=lambda each: each.name):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in family._labelnames)  # noqa: SLF001  a family without samples has no public list of labels
        print(f"| `{name}` | {family.type} | {labels or 'none'} | {family.documentation} |")


if __name__ == "__main__":
    print(HEAD)
    main()
