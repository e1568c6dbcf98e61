"""
Metrics for Prometheus. They are read from the scheduler's counters at a scrape, so they cost no time at a firing.

    prometheus_client.REGISTRY.register(Collector(scheduler.stats))

While the store does not answer, `tickwheel_store_up` is 0, and the metrics of the process itself are still exported.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tickwheel.errors import ClosedError, MissingExtraError
from tickwheel.jobs.errors import StoreError

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["LATENESS_EDGES_MS", "Collector", "buckets", "exposition"]

LATENESS_EDGES_MS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30_000)
"""Upper edges of the exported lateness buckets."""
_COMMIT_EDGES_MS: Final = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
_SIZE_EDGES: Final = tuple(1 << step for step in range(11))

_COUNTERS: Final = {
    "fired": "Firings that were handed to their target.",
    "succeeded": "Firings whose target did its work.",
    "failed": "Firings whose target failed.",
    "retried": "Failed firings that get another attempt.",
    "snoozed": "Firings whose handler asked to be called again.",
    "expired": "Runs that were left out, because they expired or were missed.",
    "dead_total": "Jobs that became dead letters.",
    "given_back": "Attempts that a stop gave back before they were handed over.",
    "stopped": "Attempts that ended, without success, after their jobs were cancelled while they ran.",
    "refused": "Ends of firings that the store refused: set again meanwhile, or owned by another.",
    "commits": "Commits to the store.",
}
_COMMIT_COUNTERS: Final = {
    "writes": "Writes in all commits.",
    "retries": "Commits that were tried again after a passing error of the store.",
    "failures": "Writes that were answered with an error.",
}
_GAUGES: Final = {
    "staged": "Jobs in memory, waiting for their instant.",
    "in_memory": "Jobs in memory in all.",
    "waiting": "Jobs that are due and wait for a worker; they can still be moved and cancelled.",
    "in_flight": "Firings in their targets' hands.",
    "epoch": "The epoch under which this process fires.",
}
_WHEEL_GAUGES: Final = {
    "pending": "Timers in the near wheel; jobs of one instant share one.",
    "bytes": "What the near wheel takes in memory.",
    "slot_max": "Timers in the fullest slot of the near wheel.",
}
_WHEEL_COUNTERS: Final = {
    "fires": "Timers that the near wheel fired.",
    "cascades": "Timers that were filed again in a finer slot.",
    "wakeups": "How often the near wheel's thread woke up.",
}
_LEASE_COUNTERS: Final = {
    "renewals": "Renewals of leases.",
    "failures": "Renewals of leases that the store did not answer.",
}
_PULL_GAUGES: Final = {
    "waiting": "Due jobs of a pull queue that wait in memory for a worker; they can still be moved and cancelled.",
    "ready": "Firings of a pull queue whose attempt is counted and that wait for a worker.",
    "leased": "Firings of a pull queue that a worker has leased.",
    "workers": "Workers that wait at a pull queue.",
}
_LANE_GAUGES: Final = {
    "staged": "Jobs of a lane in memory that have not begun; of up to 50 lanes, those whose jobs wait first.",
    "waiting": "Due jobs of a lane in memory that a limit or a lack of places holds back.",
    "running": "Attempts of a lane that are under way.",
}
_QUEUES_MAX: Final = 100
"""Maximum number of pull queues with their own label. The other queues are exported under one label."""
_OTHERS: Final = "(others)"
_CIRCUITS: Final = {"open": "open", "half-open": "half-open", "full": "full", "closed": "failing"}
"""Names under which the states of a failing receiver's circuit breaker are exported."""
_STATES: Final = ("pending", "running", "dead")
_FORMS: Final = frozenset({"application/openmetrics-text", "text/plain", "text/*", "*/*"})
_QUALITY: Final = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")
_LABELS: Final = frozenset({"target", "handler"})
_RESULTS: Final = {"dead_total": "died"}


class Collector:
    """
    A collector for a registry of prometheus_client.

    *stats* is the scheduler's method `stats`. The collector calls it at every scrape, and with `with_store=False` after
    a `StoreError`.
    """

    def __init__(self, stats: Callable[..., Mapping[str, Any]]) -> None:
        self._stats = stats

    def __repr__(self) -> str:
        return f"<Collector of {self._stats!r}>"

    def collect(self) -> Iterator[Metric]:
        """
        Yield the current metrics, or none if the scheduler has stopped.
        """
        try:
            stats = self._stats()
        except ClosedError:
            return iter(())
        except StoreError:
            stats = self._stats(with_store=False)
        return families(stats)


def exposition(stats: Mapping[str, Any], accept: str = "") -> tuple[str, bytes]:
    """
    Return the content type and the text of the metrics of *stats*, and of this process: CPU, memory, open files.

    *accept* is the Accept header of the request. Prometheus requests OpenMetrics if it stores exemplars. In that
    format, each lateness bucket has the trace of its last traced firing.
    """
    client = _library()
    registry = client.CollectorRegistry(auto_describe=False)
    registry.register(Collector(lambda **_: stats))
    client.ProcessCollector(registry=registry)
    encode, kind = client.exposition.choose_encoder(_wanted(accept))
    return kind, encode(registry)


def _wanted(accept: str) -> str:
    best, wanted = 0.0, ""
    for entry in accept.split(","):
        kind, *fields = (part.strip() for part in entry.lower().split(";"))
        given = next((field[2:] for field in fields if field.startswith("q=")), "1")
        quality = float(given) if _QUALITY.fullmatch(given) else 0.0
        if quality > best and kind in _FORMS:
            best, wanted = quality, entry
    return wanted


def families(stats: Mapping[str, Any]) -> Iterator[Metric]:
    core = _library().core
    gauge, counter = core.GaugeMetricFamily, core.CounterMetricFamily
    has_store = "shards_all" in stats
    yield gauge("tickwheel_store_up", "1 if the store answered this scrape, else 0.", int(has_store))
    if has_store:
        yield from _store(gauge, stats)
    yield from _plain(gauge, "", stats, _GAUGES)
    yield from _plain(counter, "", stats, _COUNTERS)
    text = "What became of firings, by target, and by handler or queue where these have names."
    results = (
        (each["target"], each["handler"], _RESULTS.get(result, result), count)
        for each in stats["by_handler"]
        for result, count in each.items()
        if result not in _LABELS
    )
    yield _labelled(counter, "tickwheel_results", text, ["target", "handler", "result"], results)
    yield _circuits(gauge, stats["targets"])
    text = "Attempts that run on past their timeouts."
    yield _counted(gauge, "tickwheel_leaked", text, ["target", "handler", "executor"], stats["leaked"])
    if (rejections := stats.get("rejections")) is not None:  # only a service has rejections
        text = "Requests that were refused for their token, or for want of one."
        yield _labelled(counter, "tickwheel_rejections", text, ["reason"], rejections.items())
    yield from _pull(gauge, stats["pull"])
    yield from _lanes(gauge, stats["lanes"])
    yield gauge("tickwheel_clock_offset_seconds", "The store's clock minus ours.", stats["offset_ms"] / 1000)
    text = "How much later than its instant a job was handed to its target."
    yield _durations(core, "tickwheel_lateness_seconds", text, stats["lateness"], LATENESS_EDGES_MS)
    yield from _commit(core, stats["commit"])
    yield from _ownership(core, stats)
    if (wheel := stats["wheel"]) is not None:
        fullest = max((max(counts.values()) for _, _, counts in wheel["levels"] if counts), default=0)
        yield from _plain(gauge, "wheel_", wheel | {"slot_max": fullest}, _WHEEL_GAUGES)
        yield from _plain(counter, "wheel_", wheel, _WHEEL_COUNTERS)


def _store(gauge: type[GaugeMetricFamily], stats: Mapping[str, Any]) -> Iterator[Metric]:
    states = ((state, stats[state]) for state in _STATES)
    yield _labelled(gauge, "tickwheel_jobs", "Jobs in the store.", ["state"], states)
    yield gauge("tickwheel_paused", "Pending jobs that are paused; counting ends at 10,000.", stats["paused"])
    text = "Jobs that no live node has the handler of."
    yield _counted(gauge, "tickwheel_waiting_for_handler", text, ["target", "handler"], stats["waiting_for_handler"])
    text = "Due jobs that wait because their scope is paused."
    yield _counted(gauge, "tickwheel_paused_scope", text, ["scope"], stats["paused_scopes"])
    if stats["next_due_at"] is not None:
        text = "Due time of the first pending job, without jobs that wait for a worker of a pull queue."
        yield gauge("tickwheel_next_due_timestamp_seconds", text, stats["next_due_at"] / 1000)
    yield gauge("tickwheel_shards", "Shards of the store.", stats["shards_all"])


def buckets(histogram: Iterable[Sequence[float]], edges: Sequence[float]) -> list[tuple[float | None, int]]:
    """
    Return the number of values in each bucket of *edges*, and above the last edge (None).

    A bucket of *histogram* that spans an edge counts as above that edge.
    """
    counts = [0] * (len(edges) + 1)
    for edge, count in histogram:
        counts[bisect_left(edges, edge)] += int(count)
    return list(zip((*edges, None), counts, strict=True))


def _commit(core: Any, commit: Mapping[str, Any]) -> Iterator[Metric]:
    yield from _plain(core.CounterMetricFamily, "commit_", commit, _COMMIT_COUNTERS)
    text = "Callers' writes that wait for a commit."
    yield core.GaugeMetricFamily("tickwheel_writes_waiting", text, commit["waiting"])
    text = "How long a commit to the store took."
    yield _durations(core, "tickwheel_commit_seconds", text, commit["times"], _COMMIT_EDGES_MS)
    text = "How many writes shared a commit."
    yield _histogram(core, "tickwheel_commit_size", text, buckets(commit["sizes"], _SIZE_EDGES), commit["writes"])


def _circuits(gauge: type[GaugeMetricFamily], targets: Mapping[str, Mapping[str, Any]]) -> Metric:
    """
    Count the receivers of each target by the state of their circuit breaker. Only `stats()` shows the addresses.
    """
    text = "Receivers of a target that have failed since they last worked: still called, left alone, or asked again."
    states = {
        target: [place["state"] for place in places.values() if isinstance(place, dict) and "state" in place]
        for target, places in targets.items()
    }
    counts = (
        (target, name, found.count(state)) for target, found in states.items() for state, name in _CIRCUITS.items()
    )
    return _labelled(gauge, "tickwheel_circuits", text, ["target", "state"], counts)


def _pull(gauge: type[GaugeMetricFamily], queues: Mapping[str, Mapping[str, int | None]]) -> Iterator[Metric]:
    shown: dict[str, Any] = {name: queues[name] for name in sorted(queues)[:_QUEUES_MAX]}
    rest = [each for name, each in queues.items() if name not in shown]
    if rest:
        shown[_OTHERS] = {field: sum(each[field] or 0 for each in rest) for field in _PULL_GAUGES}
        due = [each["oldest_due_at"] for each in rest if each["oldest_due_at"] is not None]
        shown[_OTHERS]["oldest_due_at"] = min(due, default=None)
    for field, text in _PULL_GAUGES.items():
        counts = [(name, figures[field]) for name, figures in shown.items()]
        yield _labelled(gauge, f"tickwheel_pull_{field}", text, ["queue"], counts)
    text = "When the job was due that has waited longest for a worker of a pull queue."
    oldest = [(name, figures["oldest_due_at"]) for name, figures in shown.items()]
    seconds = ((name, due_at / 1000) for name, due_at in oldest if due_at is not None)
    yield _labelled(gauge, "tickwheel_pull_oldest_due_timestamp_seconds", text, ["queue"], seconds)


def _lanes(gauge: type[GaugeMetricFamily], lanes: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    for field, text in _LANE_GAUGES.items():
        yield _labelled(
            gauge, f"tickwheel_lane_{field}", text, ["lane"], ((each["lane"], each[field]) for each in lanes)
        )
    text = "Due time of the first job of a lane that a limit or a lack of places holds back."
    oldest = ((each["lane"], each["oldest_due_at"] / 1000) for each in lanes if each["oldest_due_at"] is not None)
    yield _labelled(gauge, "tickwheel_lane_oldest_due_timestamp_seconds", text, ["lane"], oldest)
    text = "1 for a lane whose due jobs wait, with the reason."
    held = ((each["lane"], each["reason"], 1) for each in lanes if each["reason"] is not None)
    yield _labelled(gauge, "tickwheel_lane_held", text, ["lane", "reason"], held)
    text = "1 for a lane that has more jobs than its share of memory, with the reason for which they wait."
    full = ((each["lane"], each["reason"], 1) for each in lanes if each["is_full"])
    yield _labelled(gauge, "tickwheel_lane_full", text, ["lane", "reason"], full)


def _ownership(core: Any, stats: Mapping[str, Any]) -> Iterator[Metric]:
    leases = stats["leases"]
    has_lapsed = leases is not None and leases["trusted_s"] == 0
    text = "Shards whose jobs this process may fire now: 0 while its leases are not renewed."
    yield core.GaugeMetricFamily("tickwheel_shards_owned", text, 0 if has_lapsed else len(stats["shards"]))
    text = "Tails that this process owns: of shards that it has handed over, what still runs in it."
    yield core.GaugeMetricFamily("tickwheel_tails_owned", text, len(stats["tails"]))
    if leases is None:
        return
    yield from _plain(core.CounterMetricFamily, "lease_", leases, _LEASE_COUNTERS)
    if leases["trusted_s"] is not None:
        text = "How long this process may fire without another renewal."
        yield core.GaugeMetricFamily("tickwheel_lease_trusted_seconds", text, leases["trusted_s"])


def _plain(kind: Any, prefix: str, values: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Metric]:
    for name, text in names.items():
        if values.get(name) is not None:
            yield kind(f"tickwheel_{prefix}{name}", text, values[name])


def _labelled(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    text: str,
    labels: Sequence[str],
    rows: Iterable[Sequence[Any]],
) -> Metric:
    family = kind(name, text, labels=labels)
    for *values, figure in rows:
        family.add_metric(values, figure)
    return family


def _counted(
    gauge: type[GaugeMetricFamily], name: str, text: str, labels: Sequence[str], entries: Iterable[Mapping[str, Any]]
) -> Metric:
    rows = ([*(each[label] for label in labels), each["count"]] for each in entries)
    return _labelled(gauge, name, text, labels, rows)


def _durations(core: Any, name: str, text: str, figures: Mapping[str, Any], edges_ms: Sequence[float]) -> Metric:
    exemplars = _exemplars(core, figures.get("traces", ()), edges_ms)
    counts = buckets(figures["histogram"], edges_ms)
    return _histogram(core, name, text, counts, figures["sum_ms"], unit=1000, exemplars=exemplars)


def _exemplars(core: Any, traces: Iterable[Mapping[str, Any]], edges_ms: Sequence[float]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for each in sorted(traces, key=lambda each: each["fired_at"]):
        _, trace_id, span_id, _ = each["trace"].split("-")
        step = bisect_left(edges_ms, each["lateness_ms"])
        labels = {"trace_id": trace_id, "span_id": span_id}
        found[step] = core.Exemplar(labels, each["lateness_ms"] / 1000, each["fired_at"] / 1000)
    return found


def _histogram(
    core: Any,
    name: str,
    text: str,
    counts: Sequence[tuple[float | None, int]],
    total: float,
    *,
    unit: int = 1,
    exemplars: Mapping[int, Any] | None = None,
) -> Metric:
    number = _library().utils.floatToGoString  # OpenMetrics wants 1.0, not 1
    rows = []
    so_far = 0
    for step, (edge, count) in enumerate(counts):
        so_far += count
        rows.append(("+Inf" if edge is None else number(edge / unit), so_far, (exemplars or {}).get(step)))
    metric: Metric = core.HistogramMetricFamily(name, text, buckets=rows, sum_value=total / unit)
    return metric


def _library() -> Any:
    try:
        import prometheus_client.core  # noqa: PLC0415  on use: the extra is optional
        import prometheus_client.exposition  # noqa: PLC0415  on use: the extra is optional
        import prometheus_client.utils  # noqa: PLC0415  on use: the extra is optional
    except ImportError:
        library, extra = "prometheus_client", "prometheus"
        raise MissingExtraError(library, extra) from None
    return prometheus_client
