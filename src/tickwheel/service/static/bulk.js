// The same for all jobs that the search above the list finds: counted first, and then done, in bounded requests.

import { call } from "./api.js";
import { countFirst } from "./counted.js";
import { byId, el } from "./dom.js";
import { toast } from "./toasts.js";
import { plural } from "./words.js";

const VERBS = {
  running: { stop: "Stop" },
  pending: { pause: "Pause", cancel: "Cancel", run: "Run now", move: "Move", spread: "Spread" },
  paused: { resume: "Resume", cancel: "Cancel" },
  dead: { replay: "Replay", cancel: "Remove" },
};
const AMOUNTS = { move: "shift", spread: "over" };

export class Bulk {
  // `onDone` is called once jobs have changed.
  constructor(onDone) {
    this.onDone = onDone;
    this.verbs = el("select", { name: "verb", "aria-label": "What to do with them" });
    this.amount = el(
      "label",
      {},
      "by",
      el("input", { name: "amount", type: "number", step: "any", value: 60, required: true, "aria-label": "How long" }),
      "min",
    );
    const submit = el("button", { type: "submit" });
    this.form = el("form", { class: "bulk" }, this.verbs, this.amount, submit);
    this.form.addEventListener("input", () => this.showAmount());
    this.forget = countFirst(this.form, submit, "Count them", () => this.count());
    byId("bulk").append(el("summary", {}, "All of these …"), this.form);
  }

  // The jobs are those of `filter`, which the API takes, and are all of one `state`.
  show(state, filter) {
    this.filter = filter;
    this.names = VERBS[state];
    byId("bulk").hidden = !this.names;
    this.verbs.replaceChildren(
      ...Object.entries(this.names ?? {}).map(([value, text]) => el("option", { value }, text)),
    );
    this.showAmount();
    this.forget();
  }

  showAmount() {
    this.amount.hidden = !(this.verbs.value in AMOUNTS);
    this.amount.firstChild.textContent = this.verbs.value === "spread" ? "over" : "by";
  }

  async count() {
    const verb = this.verbs.value,
      name = this.names[verb];
    const amount = verb in AMOUNTS ? { [AMOUNTS[verb]]: 60 * this.form.elements.amount.value } : {};
    const act = verb === "stop" ? { do: "cancel", running: true } : { do: verb };
    const body = { ...act, ...this.filter, ...amount };
    const { matched, start } = await through({ ...body, dry_run: true });
    if (!matched) return void toast("There are none");
    return {
      text: `${name} ${plural(matched, "job")}`,
      look: "danger",
      act: () => this.act({ ...body, cursor: start }),
    };
  }

  async act(body) {
    const { changed, refused } = await through(body);
    const left = refused ? `; ${refused} had begun or changed meanwhile, and were left alone` : "";
    toast(`${body.running ? "Stopping" : "Changed"} ${plural(changed, "job")}${left}`);
    this.onDone();
  }
}

// Send `body` until the answer names no job to go on from, and return the sums, and where the first one began.
async function through(body) {
  const sums = { matched: 0, changed: 0, refused: 0 };
  let start = null;
  do {
    const answer = await call("POST", "/v1/jobs:bulk", { body });
    for (const name of Object.keys(sums)) sums[name] += answer[name];
    start ??= answer.start;
    body = { ...body, cursor: answer.cursor };
  } while (body.cursor);
  return { ...sums, start };
}
