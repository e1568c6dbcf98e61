"""
The part of the page's timeline (the river) that shows earlier times.

It has no dots for single jobs. It shows figures of all nodes for each minute or quarter of an hour, and marks for
events such as the death of a node.
"""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tickwheel.jobs.minutes import BUCKETS, MINUTE_MS, QUARTER_MS, LaneMinute, Minute
from tickwheel.jobs.model import HistoryRecord
from tickwheel.scheduler import Scheduler
from tickwheel.stores import make_store

H = 60 * MINUTE_MS
HOME = "return [...document.querySelectorAll('#river')].map((each) => each.getAttribute('aria-valuetext')).join()"
WHEEL = """
const event = new WheelEvent("wheel", { deltaY: arguments[0], bubbles: true, cancelable: true });
document.getElementById("river").dispatchEvent(event);
return event.defaultPrevented;
"""
# Moves two fingers from `arguments[0]` px apart to `arguments[1]` px apart.
PINCH = """
const canvas = document.getElementById("river"), { left, top, width } = canvas.getBoundingClientRect();
canvas.setPointerCapture = () => null;
const [from, to] = arguments, fire = (name, pointerId, place) =>
  canvas.dispatchEvent(new PointerEvent(name, { pointerId, clientX: left + width / 2 + place, clientY: top + 20 }));
[1, -1].forEach((side, i) => fire("pointerdown", 7 + i, (side * from) / 2));
[1, -1].forEach((side, i) => fire("pointermove", 7 + i, (side * to) / 2));
[1, -1].forEach((side, i) => fire("pointerup", 7 + i, (side * to) / 2));
"""
# Returns the number of pixels in the colour of deaths.
DIED = """
const mark = [...document.querySelectorAll("#river-ends .end > span")].at(-1);
const canvas = document.getElementById("river");
const wanted = getComputedStyle(mark).color.match(/[0-9]+/g).map(Number), { width, height } = canvas;
const copy = new OffscreenCanvas(width, height).getContext("2d");
copy.drawImage(canvas, 0, 0);
const { data } = copy.getImageData(0, 0, width, height);
let found = 0;
for (let i = 0; i < data.length; i += 4) found += wanted.every((part, place) => data[i + place] === part);
return found;
"""


def lane(fired, failed, dead):
    """
    Return the counts of a lane for one minute, in which jobs started about 100 ms late.
    """
    lateness = [0] * BUCKETS
    lateness[5] = fired
    return LaneMinute("handler:mail", fired, failed, dead, lateness=tuple(lateness), late_max_ms=99.0)


@pytest.fixture
def kept(start, tmp_path):
    """
    Return a server whose store contains figures of two nodes.

    The figures are half an hour and thirty hours old, and one node has died.
    """
    store = make_store(f"sqlite:///{tmp_path}/tickwheel.db")
    scheduler = Scheduler(store)
    scheduler.get("k")  # opens the store
    now = store.now_ms()
    recent, old = (now - H // 2) // MINUTE_MS * MINUTE_MS, (now - 30 * H) // QUARTER_MS * QUARTER_MS
    rows = [Minute(node, recent, lanes=(lane(40, 6, 2),)) for node in ("a", "b")]
    store.keep_minutes([*rows, Minute("a", old, QUARTER_MS, lanes=(lane(1_000, 0, 0),))])
    store.add_records([HistoryRecord(0, now - H // 2, "host:7:dead", 0, 0, "node_died", "a", "", "", now)])
    scheduler.stop()
    return start()


def test_two_days(kept, page):
    """
    The user can zoom out to the last two days.

    The river then shows the figures of all nodes, and the death of a node.
    """

    def label() -> str:
        return page.find("#river").get_attribute("aria-label")

    def least() -> str:
        return page.find("#river").get_attribute("aria-valuemin")

    page.open(kept)
    page.wait_for(lambda: "ten minutes, as seen from here: 0 firings" in label())
    river = page.find("#river")
    river.send_keys("-")
    assert least() == "-3600"
    page.run("document.activeElement.blur()")
    page.wait_for(lambda: "1 h, as seen from here: 80 firings: 68 succeeded, 8 failed, 4 died" in label())
    page.wait_for(lambda: page.run(DIED) > 0)
    river.send_keys(Keys.HOME, Keys.ARROW_RIGHT)  # from half an hour to twenty minutes ago
    page.wait_for(lambda: "host:7:dead died" in page.run(HOME) or river.send_keys(Keys.ARROW_LEFT))
    page.run("document.activeElement.blur()")
    assert [page.run(WHEEL, delta) for delta in (100, 100, 100, 100)] == [True, True, True, False]
    assert least() == "-172800"
    page.wait_for(lambda: "2 d, as seen from here: 1,080 firings: 1068 succeeded" in label())
    page.run(PINCH, 100, 200)
    assert least() == "-14400"  # each finger is a step
    page.run(PINCH, 200, 100)
    assert least() == "-172800"
    river.send_keys("++++")
    assert least() == "-600"
