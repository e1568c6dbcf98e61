// Short notes at the foot of the page, with an undo where there is one.

import { byId, el } from "./dom.js";
import { printable } from "./words.js";

const STAYS_MS = 8000;

export function toast(text, undo) {
  const note = el("p", { class: "toast" }, el("span", {}, printable(text)));
  const end = () => note.remove();
  if (undo) {
    note.append(
      el("button", { type: "button", class: "quiet", onclick: () => (end(), attempt(undo)) }, "Undo"),
    );
  }
  byId("toasts").append(note);
  setTimeout(end, STAYS_MS);
}

// Run `action`; what goes wrong is said, with its remedy.
export async function attempt(action) {
  try {
    await action();
    return true;
  } catch (error) {
    toast(error.remedy && !error.message.includes(error.remedy) ? `${error.message}: ${error.remedy}` : error.message);
    return false;
  }
}
