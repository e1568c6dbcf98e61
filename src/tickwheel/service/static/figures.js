// The row of figures: of the store, and what was done here, by this process since its start. And how the lateness of firings is spread.

import { el, svg, sync } from "./dom.js";
import { count, lateness } from "./words.js";

const late = ({ lateness: figures }, name) => lateness(figures.count ? figures[name] : null);

const FIGURES = [
  ["pending", "Pending", (s) => count(s.pending)],
  ["running", "Running", (s) => count(s.running)],
  ["fired", "Fired here", (s) => count(s.fired)],
  ["failed", "Failed here", (s) => count(s.failed)],
  ["dead", "Dead", (s) => count(s.dead)],
  ["p50", "Late here, p50", (s) => late(s, "p50_ms")],
  ["p99", "Late here, p99", (s) => late(s, "p99_ms")],
  ["max", "Late here, most", (s) => late(s, "max_ms")],
];

const STATES = ["pending", "running", "dead"]; // these lead to the jobs that they count

export function showFigures(parent, stats, onState) {
  sync(
    parent,
    FIGURES,
    ([key]) => key,
    ([key, name]) => {
      const attributes = STATES.includes(key) ? { type: "button", onclick: () => onState(key), title: `List ${name.toLowerCase()} jobs` } : {};
      return el(attributes.type ?? "div", { class: "figure", ...attributes }, el("b"), el("span", {}, name));
    },
    (node, [key, , say]) => {
      node.firstElementChild.textContent = say(stats);
      node.classList.toggle("alarm", key === "dead" && stats.dead > 0);
    },
  );
}

// `histogram` is a list of [upper bound in ms or null, count], as the service keeps it since its start.
export function showLateness(parent, { histogram, p50_ms, p99_ms }) {
  const total = histogram.reduce((sum, [, n]) => sum + n, 0);
  parent.hidden = total === 0;
  if (!total) return;
  const highest = Math.max(...histogram.map(([, n]) => n));
  const bars = histogram.map(([bound, n], i) => {
    const height = n ? Math.max(1.5, (36 * n) / highest) : 0;
    const label = `${bound == null ? "later" : `up to ${lateness(bound)}`}: ${count(n)}`;
    return svg("rect", { x: i * 10, y: 40 - height, width: 8, height, rx: 1 }, svg("title", {}, label));
  });
  const label = `Lateness of ${count(total)} firings: half within ${lateness(p50_ms)}, 99 of 100 within ${lateness(p99_ms)}.`;
  const chart = svg("svg", { viewBox: `0 0 ${histogram.length * 10 - 2} 40`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...bars);
  const low = histogram[0][0], high = histogram.at(-2)?.[0];
  parent.replaceChildren(
    chart,
    el("p", { "aria-hidden": "true" }, el("span", {}, `under ${lateness(low)}`), el("span", {}, "lateness"), el("span", {}, `over ${lateness(high)}`)),
  );
}
