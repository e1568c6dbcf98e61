// The list of jobs: search by prefix, state and part of the calendar; each row opens the job.

import { call } from "./api.js";
import { Bulk } from "./bulk.js";
import { byId, el, sync } from "./dom.js";
import { isBounded, outside, within } from "./reach.js";
import { refreshed } from "./toasts.js";
import { moment, now_ms, printable, recurrence, span, until, where } from "./words.js";

const PAGE = 50;
const STATES = ["pending", "running", "paused", "dead"];
const HINT = " Set one: tickwheel set tea --delay 4m --target log";

export class Jobs {
  // `onQuery` gets what is asked for, as fields of an address, of which `showFields` makes it again.
  constructor(onOpen, onQuery) {
    this.onOpen = onOpen;
    this.onQuery = onQuery;
    this.bulk = new Bulk(() => this.refresh());
    this.list = byId("jobs");
    this.query = { prefix: "", state: "pending" };
    this.limit = PAGE;
    this.asked = 0;
    const form = byId("search");
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.ask(Object.fromEntries(new FormData(form))));
    byId("more").addEventListener("click", () => {
      this.limit += PAGE;
      this.refresh();
    });
    setInterval(() => this.tick(), 100);
  }

  showFields({ prefix = "", state, from, until: end }) {
    const part = Number(from) < Number(end) ? { from: Number(from), until: Number(end) } : null;
    return this.show({ prefix, part, state: STATES.includes(state) ? state : STATES[0] });
  }

  // Show what `query` asks for, in the form as well.
  show(query) {
    const { elements } = byId("search");
    elements.prefix.value = query.prefix;
    elements.state.value = query.state;
    return this.ask(query);
  }

  // Ask for jobs of `change`, which is a part of the query.
  ask(change) {
    this.query = { ...this.query, ...change };
    this.limit = PAGE;
    const { part, prefix, state } = this.query;
    this.onQuery({ prefix, state: state === STATES[0] ? "" : state, from: part?.from, until: part?.until });
    const filter = byId("filter");
    filter.hidden = !part;
    if (part) {
      const clear = el("button", { type: "button", class: "quiet", onclick: () => this.ask({ part: null }) }, "Show all");
      filter.replaceChildren(`Due ${moment(part.from)}, for ${span(part.until - part.from)} `, clear);
    }
    this.bulk.show(this.query);
    return this.refresh();
  }

  async refresh() {
    const asked = ++this.asked;
    const { state, part } = this.query, prefix = within(this.query.prefix);
    if (prefix === null) return this.fill({ jobs: [], cursor: null });
    const isByDue = state === "pending" && !prefix; // the order of instants is that of all that is due
    const filter = state === "paused" ? { paused: true } : { state };
    const fields = new URLSearchParams({ limit: this.limit, ...(isByDue ? { order: "due" } : { prefix, ...filter }) });
    if (part) {
      fields.set("due_from", part.from / 1000);
      fields.set("due_until", part.until / 1000);
    }
    await refreshed(async () => {
      const page = await call("GET", `/v1/jobs?${fields}`);
      if (asked === this.asked) this.fill(page); // an older answer does not overwrite a newer one
    });
  }

  fill({ jobs, cursor }) {
    sync(this.list, jobs, (job) => job.key, (job) => this.make(job), update);
    const empty = byId("jobs-empty");
    empty.hidden = jobs.length > 0;
    if (within(this.query.prefix) === null) empty.textContent = outside();
    else empty.textContent = this.query.prefix || this.query.part || isBounded() ? `No ${this.query.state} job matches.` : `No job is ${this.query.state}.${this.query.state === "pending" ? HINT : ""}`;
    byId("more").hidden = !cursor && jobs.length < this.limit;
    this.tick();
  }

  make(job) {
    const button = el(
      "button",
      { type: "button", class: "row", onclick: () => this.onOpen(job.key) },
      el("span", { class: "when" }),
      el("span", { class: "key" }, printable(job.key)),
      el("span", { class: "where" }),
      el("span", { class: "at" }),
    );
    return el("li", {}, button);
  }

  tick() {
    for (const node of this.list.children) {
      const { due, state, lacks, paused } = node.dataset;
      const text = paused ? "paused" : lacks ? `waits for ${lacks}` : state === "pending" ? until(Number(due)) : state === "dead" ? moment(Number(due)) : state;
      const when = node.querySelector(".when");
      if (when.textContent !== text) when.textContent = text;
      node.classList.toggle("soon", state === "pending" && due - now_ms() < 5000);
    }
  }
}

function update(node, job) {
  const due = Date.parse(job.due_at);
  const at = node.querySelector(".at");
  Object.assign(node.dataset, { due, state: job.state, paused: job.pause ? "yes" : "", lacks: job.lacks_handler ? "its handler" : job.awaits_worker ? "a worker" : "" });
  node.querySelector(".where").textContent = where(job);
  node.classList.toggle("dead", job.state === "dead");
  at.textContent = job.state === "dead" ? (job.error ?? "") : moment(due) + (job.recurrence ? " ↻" : "");
  at.title = job.recurrence ? recurrence(job.recurrence) : "";
}
