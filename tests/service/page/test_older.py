"""
The river, the page's picture of time, counts and shows also old firings whose dots were removed.
"""

from __future__ import annotations

# `take` passes n firings, spread evenly over nearly ten minutes, to the dots; one in a thousand has died. `bare`
# returns the columns of the past in which nothing is drawn.
MAKE = """
const { Dots } = await import("/static/dots.js");
const { Axis, PAST, S } = await import("/static/axis.js");
const dots = new Dots(), axis = new Axis(), now = Date.UTC(2030, 0, 1), first = now - PAST + 10 * S;
const firing = (id, at, outcome, lateness_ms = 1 + (id % 500)) =>
  ({ fire_id: `${id}/1/1`, key: `${id}`, fired_at: new Date(at).toISOString(), lateness_ms, outcome });
const take = (n) => {
  const at = (i) => first + (i * (now - first)) / n, outcome = (i) => (i % 1000 ? "succeeded" : "died");
  for (let i = 0; i < n; i++) dots.take({ firings: [firing(i, at(i), outcome(i))] });
};
const canvas = document.getElementById("river"), { width, height } = canvas;
document.body.append(...dots.marks);
dots.paint();
axis.fit(canvas, { edge: "transparent", muted: "transparent", text: "transparent" }, 1);
axis.now = now;
const g = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
const said = () => dots.within(first - S, now + S).text;
const bare = () => {
  dots.draw(g, axis);
  const { data } = g.getImageData(0, 0, width, height);
  const isBare = (x) => !Array.from({ length: height }, (_, y) => data[4 * (y * width + x) + 3]).some(Boolean);
  const from = Math.ceil(axis.x(first + S)), until = Math.floor(axis.x(now));
  return Array.from({ length: until - from }, (_, i) => from + i).filter(isBare);
};
"""


def asked(page, script: str):
    """
    Wait until the page has drawn the dots, then run *script* and return its result.
    """
    return page.run(f"return (async () => {{{MAKE}{script}}})()")


def test_all_firings_are_counted(server, page):
    """
    All of 20,000 firings in ten minutes are counted and drawn.
    """
    page.open(server)
    text, bare, places = asked(page, "take(20_000); return [said(), bare(), dots.places.size];")
    assert text.startswith("20,000 firings: 19980 succeeded, 20 died, the latest +500 ms")
    assert bare == []
    assert places < 20_000


def test_dead_firings_without_dots_are_drawn(server, page):
    """
    After the dots of old firings were removed, dead firings are still drawn in their own colour.
    """
    page.open(server)
    script = """
    take(20_000);
    dots.draw(g, axis);
    const { data } = g.getImageData(0, 0, Math.floor(axis.x(now - 490 * S)), height), seen = new Set();
    const colour = (i) => `rgb(${data.slice(i, i + 3).join(", ")})`;
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(colour(i));
    return [dots.colours[1], dots.colours[4]].map((each) => seen.has(each));
    """
    assert asked(page, script) == [True, True]


def test_the_time_of_the_first_dead_firing(server, page):
    """
    The river knows the time of the first dead firing even after its dot was removed.
    """
    page.open(server)
    script = """
    dots.take({ firings: [firing("first", first, "died", 60 * S)] });
    take(20_000);
    return [dots.within(first, now).due, first - 60 * S];
    """
    found, due = asked(page, script)
    assert found == due


def test_a_long_run(server, page):
    """
    If a firing ends long after its dot was removed, it is still counted once, with its outcome.
    """
    page.open(server)
    script = """
    dots.take({ firings: [firing("long", first - S / 2, "running", 1)] });
    take(20_000);
    const before = said();
    dots.take({ firings: [firing("long", first - S / 2, "failed", 1)] });
    return [before, said()];
    """
    before, after = asked(page, script)
    assert before.startswith("20,001 firings: 19980 succeeded, 1 running, 20 died")
    assert after.startswith("20,001 firings: 19980 succeeded, 1 failed, 20 died")


def test_the_oldest_firings_are_removed(server, page):
    """
    Firings that are too old for the river are removed, and are no longer counted.
    """
    page.open(server)
    script = """
    take(20_000);
    const at = (i) => now + ((i + 0.5) * 2 * PAST) / 60_000;
    for (let i = 0; i < 60_000; i++) dots.take({ firings: [firing(20_000 + i, at(i), "failed")] });
    return dots.within(now + PAST, now + 2 * PAST).text;
    """
    assert asked(page, script).startswith("30,000 firings: 30000 failed")


def test_reports_are_drawn_once(server, page):
    """
    Firings that a node reports twice are drawn once. Firings that a dead node has reported are not drawn.
    """
    script = """
    const { othersOf } = await import("/static/others.js?apart");
    const ended = (key) => ({ key, generation: 1, attempt: 1 });
    const node = (owner, keys, more = {}) => ({ owner, state: "well", figures: { recent: keys.map(ended) }, ...more });
    const read = (...nodes) => {
      const { number, firings } = othersOf({ nodes });
      return [number, firings.map(({ fire_id, by }) => `${fire_id} ${by}`)];
    };
    return [
      read(node("a", ["k", "l"]), node("me", ["x"], { is_this: true })),
      read(node("a", ["k", "l"]), node("b", ["k"], { figures: null })),
      read(node("a", ["l", "m"]), node("c", ["x"], { state: "gone" })),
    ];
    """
    page.open(server)
    assert asked(page, script) == [[1, ["k/1/1 a", "l/1/1 a"]], [2, []], [1, ["m/1/1 a"]]]
