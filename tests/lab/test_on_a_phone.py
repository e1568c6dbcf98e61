"""
On a phone, the pages of the lab do not scroll sideways, and all text in drawings is large enough to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tickwheel.lab.compare import compare
from tickwheel.lab.designs import Design, parse_design
from tickwheel.lab.generate import Load, generate
from tickwheel.lab.load.figures import Tally, ranked
from tickwheel.lab.load.page import render_load
from tickwheel.lab.load.run import LoadResult, Mix
from tickwheel.lab.report import render_report
from tickwheel.lab.tune import facts_of
from tickwheel.lab.watch import render_watch, small

TRACE = list(generate(Load("connections", seconds=60, size=2, seed=5)))
LEGIBLE_PX = 10
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
MEASURE = """
const sizes = [...document.querySelectorAll("svg text")].map((text) => {
  const at = text.getScreenCTM();
  return [parseFloat(getComputedStyle(text).fontSize) * Math.hypot(at.a, at.b), text.textContent];
});
return [document.documentElement.scrollWidth, sizes];
"""


def comparison() -> str:
    designs = [parse_design(text) for text in ("native", "heap", "hierarchical:tick=0.01,slots=64")]
    return render_report(compare("connections", TRACE, designs, [50, 500], steps=1_000))


def load() -> str:
    stages = []
    for rate in (1.0, 20.0):
        tally = Tally(rate, 3, 100.0)
        for number in range(3):
            now = tally.intended(number)
            tally.answered(number, now, now + 0.01 * rate, is_overtaken=False)
        stages.append(tally.figures(3, ranked([0.002])))
    return render_load(LoadResult("http://127.0.0.1:8765", "here", Mix(), stages), [], is_limited=True)


def watched() -> str:
    designs = [small(Design(name), facts_of(TRACE)) for name in ("hierarchical", "heap")]
    return render_watch("connections", designs, TRACE, 60)


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("make", [comparison, load, watched])
def test_a_page_fits(make: Callable[[], str], phone: Any, tmp_path: Any) -> None:
    """
    The page is not wider than the phone's screen, and all text in its charts is large enough to read.
    """
    page = tmp_path / "page.html"
    page.write_text(make(), "utf-8")
    phone.get(page.as_uri())
    width, sizes = phone.execute_script(MEASURE)
    assert width == PHONE["width"]
    assert [text for size, text in sizes if size < LEGIBLE_PX] == []
