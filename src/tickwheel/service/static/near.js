// The near wheel turning: a ring for each level that matters, its slots as dark as they are full, its hand where it is.

import { call } from "./api.js";
import { byId, el, svg } from "./dom.js";
import { heat } from "./strips.js";
import { count, length } from "./words.js";

const SLOTS = 64;
const OUTER = 116, INNER = 34;
const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const FASTEST_MS = 1000; // a hand that is faster is a blur, and drawn as none

export class Near {
  constructor() {
    this.rings = [];
    this.chart = svg("svg", { viewBox: "-120 -120 240 240", role: "img" });
    byId("rings").append(this.chart);
  }

  async refresh() {
    const begun = performance.now();
    const wheel = await call("GET", "/v1/wheel");
    this.read_at = (begun + performance.now()) / 2;
    this.show(wheel);
  }

  show({ levels, timers, cascades, wakeups, bytes, slot_max }) {
    const shown = levels.filter(({ slot_ns, counts }) => Object.keys(counts).length || (slot_ns > 1e6 && slot_ns < 1e12));
    const names = shown.map(({ level }) => level).join();
    if (names !== this.names) this.build(shown, names);
    shown.forEach((level, i) => this.rings[i].fill(level));
    this.chart.setAttribute("aria-label", `The near wheel: ${count(timers)} timers, at most ${count(slot_max)} in one slot.`);
    byId("levels").tBodies[0].replaceChildren(...shown.map((level) => {
      const full = Object.values(level.counts);
      const sum = full.reduce((a, b) => a + b, 0);
      const cells = [ns(level.slot_ns), ns(level.slot_ns * SLOTS), count(sum), full.length ? count(Math.max(...full)) : "–"];
      return el("tr", {}, el("th", { scope: "row" }, String(level.level)), ...cells.map((text) => el("td", {}, text)));
    }));
    const filed = levels.reduce((sum, level) => sum + Object.values(level.counts).reduce((a, b) => a + b, 0), 0);
    const facts = [["Timers", `${count(timers)}, ${count(timers - filed)} of them in the slot that is open`], ["Fullest slot", count(slot_max)], ["Cascaded", count(cascades)], ["Woken up", count(wakeups)], ["Memory", `${count(Math.ceil(bytes / 1024))} KiB`]];
    this.turn();
    byId("wheel-facts").replaceChildren(...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  build(shown, names) {
    this.names = names;
    const each = (OUTER - INNER) / shown.length;
    this.rings = shown.map((level, i) => new Ring(INNER + i * each + 2, INNER + (i + 1) * each - 1));
    this.chart.replaceChildren(...this.rings.map((ring) => ring.node));
  }

  // The hands go on between two looks; a wheel that nobody looks at any more does not turn.
  turn() {
    cancelAnimationFrame(this.frame);
    if (byId("rings").closest("[hidden]")) return;
    const passed_ns = (performance.now() - this.read_at) * 1e6;
    for (const ring of this.rings) ring.point(passed_ns);
    this.frame = requestAnimationFrame(() => this.turn());
  }
}

class Ring {
  constructor(inner, outer) {
    this.slots = Array.from({ length: SLOTS }, (_, i) => svg("path", { d: wedge(i, inner, outer), class: "h0" }));
    this.hand = svg("path", { class: "ring-hand", d: wedge(0, inner - 1, outer + 1) });
    this.node = svg("g", {}, ...this.slots, this.hand);
  }

  fill(level) {
    this.level = level;
    this.slots.forEach((slot, i) => slot.setAttribute("class", `h${heat(level.counts[i] ?? 0)}`));
    this.hand.setAttribute("visibility", (level.slot_ns * SLOTS) / 1e6 < FASTEST_MS || CALM.matches ? "hidden" : "visible");
  }

  point(passed_ns) {
    const { hand, slot_ns, into_ns } = this.level;
    const at = Math.floor(hand + (into_ns + passed_ns) / slot_ns) % SLOTS;
    if (at !== this.at) this.hand.setAttribute("transform", `rotate(${(at * 360) / SLOTS})`);
    this.at = at;
  }
}

const UNITS = [[86_400e9, "d"], [3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

function ns(n) {
  const years = n / (365.25 * 86_400e9);
  if (years >= 1) return `${count(Math.round(years))} y`;
  const [size, unit] = UNITS.find(([least]) => n >= least) ?? [1, "ns"];
  return `${Number((n / size).toPrecision(3))} ${unit}`;
}

function wedge(i, inner, outer) {
  const from = ((i + 0.06) / SLOTS) * 2 * Math.PI, to = ((i + 0.94) / SLOTS) * 2 * Math.PI;
  const at = (r, a) => `${(r * Math.sin(a)).toFixed(2)} ${(-r * Math.cos(a)).toFixed(2)}`;
  return `M${at(inner, from)}L${at(outer, from)}A${outer} ${outer} 0 0 1 ${at(outer, to)}L${at(inner, to)}A${inner} ${inner} 0 0 0 ${at(inner, from)}Z`;
}
