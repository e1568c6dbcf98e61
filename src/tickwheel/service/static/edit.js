// Change a job in place: its payload, and of a recurring one its rule; when it is due stays, unless the rule says otherwise.

import { change } from "./acts.js";
import { exact } from "./api.js";
import { el } from "./dom.js";
import { attempt } from "./toasts.js";

export function edit(job, onDone) {
  if (job.state !== "pending") return null; // what is set again while it runs, runs; what is paused stays paused
  const text = JSON.stringify(job.payload, null, 2);
  const form = el("form", { class: "edit" },
    el("label", {}, "Payload, as JSON", el("textarea", { name: "payload", rows: Math.min(12, text.split("\n").length + 1), spellcheck: "false", autocomplete: "off" }, text)),
    ...ruleFields(job.recurrence),
    el("button", { type: "submit", class: "primary" }, "Save"),
  );
  const field = form.elements.payload;
  field.addEventListener("input", () => field.setCustomValidity(flaw(field.value)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const rule = [...form.elements].filter(({ name }) => name && name !== "payload");
    const isNew = rule.some((input) => input.value !== input.defaultValue); // a rule that stays keeps the phase and the instant
    const fields = isNew ? Object.fromEntries(rule.map(({ name, value }) => [name, value])) : {};
    if (await attempt(() => change(job, { payload: exact(field.value), ...fields }, onDone))) onDone();
  });
  return el("details", { class: "writes" }, el("summary", {}, "Edit"), form);
}

function ruleFields(recurrence) {
  if (!recurrence) return [];
  const input = (name, label, value) => el("label", {}, label, el("input", { name, value, required: true, spellcheck: "false", autocomplete: "off" }));
  if (recurrence.cron) return [input("cron", "Cron line", recurrence.cron), input("tz", "in the zone", recurrence.tz)];
  return [input("every", "Every", `${recurrence.every_ms / 1000}s`)];
}

function flaw(text) {
  try {
    exact(text);
    return "";
  } catch (error) {
    return `This is not JSON: ${error.message}`;
  }
}
