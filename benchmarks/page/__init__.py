"""
Measures the service's page in Chromium while many jobs are pending and many fire.

The figures are the lengths of the page's frames and tasks.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from selenium import webdriver

from benchmarks import http
from benchmarks.model import Bar, Case, Measure
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

PENDING = 200_000
RATE = 500
DAY_S = 86_400
SOONEST_S = 900
"""Seconds until the first waiting job is due; the case ends before that time."""
BATCH = 1_000
BLANK_S = 5
"""Seconds on an empty page, because a browser that has just started is busy with its own work."""
LOOK = "the page"
CONDITIONS = {
    LOOK: (
        "the service on SQLite in the working folder, with so many jobs pending over the next day, and "
        f"{RATE} recurring ones that fire once a second each; its overview in Chromium, "
        "started before, headless and drawn in software, 1280 px wide, watched after the first seconds; "
        "the browser and the service share the cores. "
        "frame: the time from one animation frame to the next; task: the longest that the browser reports, of "
        "50 ms and more, from loading on; work: CPU of the page's main thread, for each frame; "
        "all files: of the page, uncompressed"
    )
}
BARS = (
    Bar("frame p95", clock="wall", at_most=20),
    Bar("frame max", clock="wall", at_most=100),
    Bar("longest task", clock="wall", at_most=100),
    Bar("first paint", clock="wall", at_most=1000),
    Bar("all files", clock="", at_most=200_000),
)
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1280,1000")
WATCH: Final = """
window.tasks = [];
const note = (list) => tasks.push(...list.getEntries().map(({ duration }) => duration));
new PerformanceObserver(note).observe({ type: "longtask", buffered: true });
"""
FRAMES: Final = """
const [ms, done] = arguments, frames = [];
let last = performance.now();
const end = last + ms;
const look = (now) => {
  frames.push(now - last);
  last = now;
  if (now < end) requestAnimationFrame(look);
  else done(frames.slice(1));
};
requestAnimationFrame(look);
"""
LOADED: Final = """
const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
const files = all.filter(({ name }) => !name.includes("/v1/"));
return [performance.getEntriesByType("paint")[0].startTime, files.reduce((sum, each) => sum + each.decodedBodySize, 0)];
"""


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases.
    """
    return [Case(__name__, LOOK, "tickwheel", PENDING, {"warm_s": 10, "watch_s": 10 if quick else 60}, 1)]


def measure(_work: str, _subject: str, pending: int, *, warm_s: int, watch_s: int) -> list[Measure]:
    """
    Run one case.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        path = Path(folder, "jobs.db")
        fill(path, pending)
        with http.serving("tickwheel", path) as (port, _pid):
            browser = chromium(folder)
            try:
                browser.get("about:blank")
                time.sleep(BLANK_S)
                browser.get(f"http://127.0.0.1:{port}/")
                time.sleep(warm_s)
                return watch(browser, watch_s)
            finally:
                browser.quit()


def fill(path: Path, pending: int) -> None:
    """
    Set jobs that wait, and jobs that fire during the measurement.
    """
    draw = random.Random(pending)
    waiting = [
        SetRequest(f"waits/{number}", delay=draw.uniform(SOONEST_S, DAY_S), handler="nothing")
        for number in range(pending)
    ]
    firing = [
        SetRequest(f"fires/{number}", delay=number / RATE, every=1.0, handler="nothing", misfire="skip")
        for number in range(RATE)
    ]
    client = Scheduler(f"sqlite:///{path}")
    for begin in range(0, pending, BATCH):
        client.set_many(waiting[begin : begin + BATCH])
    client.set_many(firing)
    client.stop()


def chromium(folder: str) -> Any:
    """
    Start the browser.

    Its profile is in *folder*.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    browser.set_script_timeout(600)
    return browser


def watch(browser: Any, seconds: int) -> list[Measure]:
    """
    Measure the page that *browser* has open.
    """
    fired, worked, begun = stats(browser)["fired"], work_ms(browser), time.monotonic()
    frames = sorted(browser.execute_async_script(FRAMES, 1000 * seconds))
    work = (work_ms(browser) - worked) / len(frames)
    rate = (stats(browser)["fired"] - fired) / (time.monotonic() - begun)
    paint, size = browser.execute_script(LOADED)
    tasks = browser.execute_script("return window.tasks")
    return [
        Measure("frame p50", frames[len(frames) // 2], "ms", "wall"),
        Measure("frame p95", frames[len(frames) * 95 // 100], "ms", "wall"),
        Measure("frame max", frames[-1], "ms", "wall"),
        Measure("work of a frame", work, "ms", "cpu"),
        Measure("longest task", max(tasks, default=0), "ms", "wall"),
        Measure("tasks of 50 ms and more", len(tasks), "tasks"),
        Measure("first paint", paint, "ms", "wall"),
        Measure("all files", size, "bytes"),
        Measure("fired", rate, "per second", "wall"),
    ]


def work_ms(browser: Any) -> float:
    """
    Return the CPU time in ms that the page's main thread has used for tasks.
    """
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return 1000 * float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def stats(browser: Any) -> dict[str, Any]:
    """
    Let the page request the service's stats, and return them.
    """
    found: dict[str, Any] = browser.execute_async_script(
        "fetch('/v1/stats').then((answer) => answer.json()).then(arguments[0])"
    )
    return found
