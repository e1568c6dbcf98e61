// Puts the parts of the page together: the stream drives everything, and what it says has changed is asked for again.

import { call } from "./api.js";
import { openJob } from "./detail.js";
import { dial } from "./dial.js";
import { byId } from "./dom.js";
import { showFigures, showLateness } from "./figures.js";
import { Firings } from "./firings.js";
import { Jobs } from "./jobs.js";
import { follow } from "./live.js";
import { Strips } from "./strips.js";
import { attempt } from "./toasts.js";
import { setClock } from "./words.js";

const REFRESH_MS = 500; // at most so often is a list asked for again
const SILENT_CHANGES_MS = 10_000; // other processes may write without our service knowing

const changed = throttle(async () => {
  await Promise.all([jobs.refresh(), forecast()]);
}, REFRESH_MS);
const open = (key) => attempt(() => openJob(key, changed));

const jobs = new Jobs(open);
const firings = new Firings(open);
const wheel = dial();
const strips = new Strips(byId("strips"), (part) => show({ part, prefix: "", state: "pending" }));
const show = (query) => {
  jobs.show(query);
  byId("pending").scrollIntoView({ behavior: "smooth", block: "nearest" });
};

let stats = null;

async function forecast() {
  const next = await call("GET", "/v1/forecast").catch(() => null); // the stream says when the service is away
  if (!next) return;
  strips.show(next.strips);
  wheel.show(next.strips[0], next.next_due_at && Date.parse(next.next_due_at), stats?.pending ?? 0);
}

follow(
  (name, data) => {
    if (name === "firings") {
      const fresh = firings.take(data);
      for (let n = 0; n < Math.min(fresh, 3); n++) wheel.pulse();
      changed();
    } else if (name === "stats") {
      setClock(Date.parse(data.now));
      showFigures(byId("figures"), data, (state) => show({ part: null, prefix: "", state }));
      showLateness(byId("lateness"), data.lateness);
      byId("store").textContent = data.store;
      if (stats?.changes !== data.changes || stats?.pending !== data.pending) changed();
      stats = data;
    }
  },
  (state) => {
    const link = byId("link");
    if (link.dataset.state === state) return;
    link.dataset.state = state;
    link.textContent = state === "live" ? "live" : "service is away, trying again";
    document.body.classList.toggle("away", state !== "live");
  },
);

setInterval(() => document.hidden || !stats || forecast(), 1000);
setInterval(() => document.hidden || changed(), SILENT_CHANGES_MS);

// Run `work` now, or at the end of the wait that the last run began; never twice at once.
function throttle(work, wait_ms) {
  let isBusy = false, isWanted = false;
  return async function run() {
    if (isBusy) {
      isWanted = true;
      return;
    }
    isBusy = true;
    await work();
    setTimeout(() => {
      isBusy = false;
      if (isWanted) {
        isWanted = false;
        run();
      }
    }, wait_ms);
  };
}
