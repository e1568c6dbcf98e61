"""
The figures of a load test: latencies, thresholds, and the page that shows them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tickwheel.lab.load.figures import StageFigures, Tally, lateness_between, ranked
from tickwheel.lab.load.page import COLUMNS, render_load, stage_rows
from tickwheel.lab.load.run import LoadError, LoadResult, Mix, run_load
from tickwheel.lab.load.stages import METRICS, LoadStage, Threshold, misses
from tickwheel.lab.wire import Client, Delivery, Receiver, UrlError


def stats(buckets: list[int], most: float = 0.0) -> dict[str, Any]:
    """
    Return the stats of a service whose histogram of lateness has three buckets.

    *buckets* are the counts up to 1 ms, up to 10 ms, and above 10 ms.
    """
    return {"lateness": {"histogram": [[1, buckets[0]], [10, buckets[1]], [None, buckets[2]]], "max_ms": most}}


def stage_of(latencies: list[float], *, failed: int = 0) -> StageFigures:
    """
    Return the figures of a stage that sends one request a second.

    *latencies* are the latencies of the answered requests. *failed* is the number of further requests.
    """
    tally = Tally(1.0, len(latencies) + failed, 100.0)
    for number, latency in enumerate(latencies):
        # All requests were sent late: each answer came a millisecond after its request was sent.
        now = tally.intended(number) + latency
        tally.answered(number, now - 0.001, now, is_overtaken=False)
    for _ in range(failed):
        tally.refused("status 503")
    assert tally.ended.is_set()
    return tally.figures(3, ranked([0.002]))


def test_a_latency_counts_from_the_intended_start() -> None:
    """
    The latency of a request is measured from the time at which it should have been sent.
    """
    figures = stage_of([0.001, 0.001, 2.5])
    assert figures.latency_s["max"] == pytest.approx(2.5)
    assert figures.service_s["max"] == pytest.approx(0.001)
    assert [row["answered"] for row in figures.by_second] == [1, 1, 0]
    assert figures.by_second[2]["p99"] == pytest.approx(2.5)
    assert figures.achieved_rate == pytest.approx(3 / 4.5)


def test_a_request_without_an_answer_counts() -> None:
    """
    If a request is never answered, its latency is the whole time that the client waited.

    If a request is answered with an error, only the error is counted.
    """
    tally = Tally(1.0, 3, 100.0)
    tally.answered(0, 100.0, 100.5, is_overtaken=False)
    tally.unanswered(1, 111.0, "timed out")
    tally.refused("status 429")
    figures = tally.figures(0, ranked([]))
    assert (figures.latency_s["p50"], figures.latency_s["max"]) == (0.5, 10.0)
    assert figures.errors == {"timed out": 1, "status 429": 1}
    assert (figures.answered, figures.error_rate) == (1, 2 / 3)
    assert [row["p99"] for row in figures.by_second] == [0.5, 10.0, None]
    assert "NaN" not in LoadResult("http://x", "here", Mix(), [figures]).as_json()
    assert "nan" not in render_load(LoadResult("http://x", "here", Mix(), [figures]), [], is_limited=False)


def test_percentiles() -> None:
    """
    The 90th percentile of a thousand values is the 900th of them in ascending order.

    If there are no values, all percentiles are zero.
    """
    assert ranked(range(1, 1001)) == {"p50": 500, "p90": 900, "p99": 990, "p999": 999, "max": 1000}
    assert ranked([]) == dict.fromkeys(("p50", "p90", "p99", "p999", "max"), 0.0)


def test_lateness_counts_only_the_load() -> None:
    """
    Firings from before the load are not counted.
    """
    fired, late_s = lateness_between(stats([50, 0, 0]), stats([140, 9, 1], 123.0))
    assert fired == 100
    assert (late_s["p50"], late_s["p99"], late_s["max"]) == (0.001, 0.01, 0.123)
    assert lateness_between(stats([1, 0, 0]), stats([1, 0, 0])) == (0, ranked([]))


@pytest.mark.parametrize(
    ("metric", "limit", "is_missed"),
    [
        ("p50", 0.2, False),
        ("p50", 0.05, True),
        ("max", 0.3, False),
        ("late_p99", 0.001, True),
        ("error_rate", 0.0, True),
        ("error_rate", 0.25, False),
        ("achieved", 0.5, False),
        ("achieved", 0.9, True),
    ],
)
def test_thresholds(metric: str, limit: float, *, is_missed: bool) -> None:
    """
    If a figure exceeds its threshold in any stage, the text names the stage and the figure.
    """
    stages = [stage_of([0.1, 0.1, 0.3], failed=1)]
    found = misses([Threshold(metric, limit)], stages)
    assert bool(found) is is_missed
    assert all(text.startswith(f"{metric} is ") and "1 a second" in text for text in found)


def test_a_stage_without_an_answer() -> None:
    """
    If no request of a stage is answered, this is reported like a missed threshold.
    """
    silent = stage_of([], failed=2)
    assert misses([Threshold("p99", 0.1)], [stage_of([0.1]), silent]) == ["no request was answered at 1 a second"]
    page = render_load(LoadResult("http://x", "here", Mix(), [silent]), misses([], [silent]), is_limited=False)
    assert "no request was answered at 1 a second" in page


def test_every_metric_is_read() -> None:
    """
    For each metric that may have a threshold, the figures contain a number.
    """
    figures = stage_of([0.1])
    assert all(metric.read(figures) >= 0 for metric in METRICS.values())


def test_the_page_stands_alone() -> None:
    """
    The page of a load test shows the stages and the missed thresholds, and loads no other file.
    """
    result = LoadResult("http://x", "here", Mix(), [stage_of([0.1, 0.2]), stage_of([0.1, 0.2])])
    page = render_load(result, ["p99 is <much>"], is_limited=True)
    assert "p99 is &lt;much&gt;" in page
    assert "default-src 'none'" in page
    assert "{{" not in page
    assert page.count("<svg") == 2  # if all stages have one rate, there is no curve over rates
    assert "every threshold was kept" in render_load(result, [], is_limited=True)
    assert "no threshold was set" in render_load(result, [], is_limited=False)
    assert {len(row) for row in stage_rows(result.stages)} == {len(COLUMNS)}


@pytest.mark.parametrize(
    "url", ["", "localhost:80", "ftp://x", "http://", "http://x:port", "http://x/path", "http://[x"]
)
def test_an_address_without_a_service(url: str) -> None:
    """
    If an address cannot belong to a service, it is refused, and the error quotes it.
    """
    with pytest.raises(UrlError, match="write it as in http://127"):
        Client(url)


def test_a_missing_service_ends_the_load() -> None:
    """
    If the service is missing or refuses requests, the load does not begin, and the error has the reason.
    """

    async def load(url: str) -> None:
        async with Client(url) as client:
            await run_load(client, [LoadStage(10, 1)], Mix(), lambda *_: None)

    async def both() -> None:
        async with Receiver(lambda _: 401) as receiver:
            url = f"http://127.0.0.1:{receiver.port}"
            with pytest.raises(LoadError, match="answers 401: start it with 'tickwheel serve', and pass its --token"):
                await load(url)
        with pytest.raises(LoadError, match="cannot be reached"):
            await load(url)

    asyncio.run(both())


def test_requests_over_several_connections() -> None:
    """
    The client of a load test sends requests over several connections. Requests of a lost connection have the status 0.
    """
    got: list[Delivery] = []
    proof = "abc"

    def take(delivery: Delivery) -> int:
        got.append(delivery)
        return 503 if delivery.body == b"no" else 200

    async def talk() -> None:
        async with (
            Receiver(take) as receiver,
            Client(f"http://127.0.0.1:{receiver.port}", token=proof, connections=3) as client,
        ):
            answers = await asyncio.gather(*(client.ask("POST", f"/{n}", f'{{"n": {n}}}') for n in range(20)))
            assert {answer.status for answer in answers} == {200}
            assert (await client.ask("POST", "/", "no")).status == 503
            hanging = asyncio.gather(client.ask("GET", "/slow"))
            client.give_up()
            assert [answer.status for answer in await hanging] in ([0], [200])

    asyncio.run(talk())
    assert {delivery.body for delivery in got} >= {f'{{"n": {n}}}'.encode() for n in range(20)}
    assert got[0].headers["authorization"] == "Bearer abc"
