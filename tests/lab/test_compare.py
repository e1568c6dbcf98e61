"""
Comparisons of designs: the workload, the figures, and the page with the results.
"""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tickwheel.lab._charts import COLOURS
from tickwheel.lab.compare import Comparison, MeasureError, compare
from tickwheel.lab.designs import parse_design
from tickwheel.lab.generate import Load, generate
from tickwheel.lab.report import figures_table, render_report
from tickwheel.lab.trace import TraceOperation
from tickwheel.lab.workload import Workload, WorkloadError, workload_of
from tickwheel.wheels import CARDS, HeapWheel

TRACE = list(generate(Load("connections", seconds=60, size=20, seed=3)))
CHOICE = ["native", "heap", "single:tick=0.01,slots=3100", "hierarchical:tick=0.01,slots=16", "cascading:tick=0.01"]


class Tags(HTMLParser):
    """
    A parser that records the external references of a page, and whether its tags match.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """
        Record a tag, and any address in the tag.
        """
        if tag not in {"meta", "input", "br"}:
            self.open.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag: str) -> None:
        """
        Close the tag that was opened last.
        """
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """
    Return a small comparison, with its figures.
    """
    told: list[str] = []
    designs = [parse_design(text) for text in CHOICE]
    found = compare("connections", TRACE, designs, [100, 2_000], steps=4_000, progress=told.append)
    assert len(told) == 2 * (len(designs) + 1) + 1
    assert told[0] == "100 pending: superposing"
    assert told[-1] == "done"
    return found


def played(workload: Workload) -> tuple[int, int]:
    """
    Run a workload on a heap.

    Return the number of pending timers at the start of the workload, and their number at its end.
    """
    wheel = HeapWheel()
    ids = {number: wheel.insert(deadline, number) for number, deadline in enumerate(workload.fill)}
    at_start = len(wheel)
    for now, number, deadline in zip(workload.times, workload.numbers, workload.deadlines, strict=True):
        wheel.advance(now)
        if deadline < 0:
            wheel.cancel(ids.get(number, 0))
        elif not wheel.reschedule(ids.get(number, 0), deadline):
            ids[number] = wheel.insert(deadline, number)
    return at_start, len(wheel)


@pytest.mark.parametrize("pending", [10, 500, 20_000])
def test_a_workload_has_the_requested_size(pending: int) -> None:
    """
    A workload has about the requested number of pending timers, both at its start and at its end.
    """
    workload = workload_of(TRACE, pending, 5_000)
    at_start, at_end = played(workload)
    assert pending <= at_start == len(workload.fill) <= 1.2 * pending + 200
    assert workload.copies < 5 or 0.7 * at_start < at_end < 1.4 * at_start
    assert 2_500 < len(workload.times) < 10_000
    assert list(workload.times) == sorted(workload.times)
    assert max(workload.numbers) < workload.timers
    assert min(workload.fill) > 0


def test_a_workload_of_one_copy_is_the_trace() -> None:
    """
    A workload of a single copy has the same timers as the trace.

    It begins with the timers that are pending after a tenth of the trace, and continues with the rest.
    """
    trace = [TraceOperation(0, "S", str(number), (number + 1) * 1_000_000) for number in range(20)]
    trace += [TraceOperation(500_000, "C", "5", 0), TraceOperation(10_000_000, "S", "late", 1_000_000)]
    workload = workload_of(trace, 15, 100)
    assert workload.copies == 1
    # After a tenth, at 1 s, timer 0 has fired and timer 5 is cancelled.
    assert sorted(workload.fill) == [second * 10**9 for second in range(1, 20) if second != 5]
    assert list(zip(workload.times, workload.deadlines, strict=True)) == [(9 * 10**9, 10 * 10**9)]


def test_a_workload_is_written_and_read(tmp_path: Path) -> None:
    """
    A workload that is written to a file is read back unchanged.
    """
    workload = workload_of(TRACE, 200, 1_000)
    workload.write(tmp_path / "workload")
    assert Workload.read(tmp_path / "workload") == workload


def test_traces_that_make_no_workload() -> None:
    """
    A trace in which hardly any timer is ever pending cannot be made into a workload, so it is refused.
    """
    with pytest.raises(WorkloadError, match="the trace is empty"):
        workload_of([], 10, 10)
    nothing = [TraceOperation(number * 1_000_000, "S", "short", 10) for number in range(100)]
    with pytest.raises(WorkloadError, match="nothing pending for most of its time"):
        workload_of(nothing, 10, 10)


def test_every_design_fires_the_same(comparison: Comparison) -> None:
    """
    Under the same load, the native wheel and the heap fire the same number of timers.

    In every design, a timer is late by less than a tick.
    """
    for size in (100, 2_000):
        rows = [row for row in comparison.rows if row["size"] == size]
        assert [row["wheel"] for row in rows] == CHOICE
        assert len({row["pending"] for row in rows}) == 1
        exact = [row for row in rows if row["design"] in {"native", "heap"}]
        assert len({sum(row["rest"]["fired"]) for row in exact}) == 1
        for row in rows:
            tick_ns = parse_design(row["wheel"]).make().abilities.tick_ns
            assert row["lateness_ns"]["all"] <= max(tick_ns - 1, 0)
            assert min(row["fill_ns"], row["churn_ns"], row["fire_ns"], row["longest_ns"]) > 0


def test_only_wheels_cascade(comparison: Comparison) -> None:
    """
    The heap and the single ring never move an entry to a different slot, but hierarchical wheels do.
    """
    cascades = {row["design"]: row["cascades"] for row in comparison.rows if row["size"] == 2_000}
    assert cascades["heap"] == cascades["single"] == 0
    assert min(cascades["hierarchical"], cascades["cascading"]) > 0
    occupancy = {row["design"]: row["occupancy"] for row in comparison.rows if row["size"] == 2_000}
    for name in ("native", "single", "hierarchical", "cascading"):
        assert 1_000 < sum(ring["entries"] for ring in occupancy[name]) < 4_000
        assert all(max(ring["fills"]) == ring["most"] and len(ring["fills"]) <= 128 for ring in occupancy[name])


def test_the_figures_are_json(comparison: Comparison) -> None:
    """
    A comparison can be written as one JSON document, with a description of the machine and a row for each case.
    """
    document = json.loads(comparison.as_json())
    assert document["trace"] == "connections"
    assert "Python 3." in document["machine"]
    assert len(document["rows"]) == 2 * len(CHOICE)
    assert len(figures_table(document["rows"])) == 1 + 2 * len(CHOICE)


def test_the_page_stands_alone(comparison: Comparison) -> None:
    """
    The page of a comparison loads no other file, its HTML tags match, and each chart shows every design.
    """
    page = render_report(comparison)
    tags = Tags(page)
    assert tags.fetched == []
    assert tags.open == []
    assert "default-src 'none'" in page
    assert "{{" not in page
    for chart in page.split("<section>")[1:5]:
        assert re.findall(r'class="name"[^>]*>(\w+)<', chart)
        assert set(re.findall(r'class="name"[^>]*>(\w+)<', chart)) == {row["design"] for row in comparison.rows}
    figures = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert figures is not None
    assert json.loads(figures[1])["rows"] == comparison.rows


def test_a_ring_that_is_too_short() -> None:
    """
    If a ring is too short for the load, the comparison ends with an error.

    The error names the design and a sufficient size.
    """
    with pytest.raises(
        MeasureError, match=r"single:tick=0\.01,slots=10 at 50 pending: .*SpanExceededError: a delay of"
    ):
        compare("connections", TRACE, [parse_design("single:tick=0.01,slots=10")], [50], steps=1_000)


def test_every_design_has_a_separate_colour() -> None:
    """
    Each design has a colour of its own.
    """
    assert len({COLOURS[name] for name in CARDS}) == len(CARDS)
