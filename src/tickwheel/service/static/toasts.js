// Short notes at the foot of the page, with an undo where there is one.

import { isShown } from "./api.js";
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
  let timer = setTimeout(end, STAYS_MS);
  const stay = () => clearTimeout(timer);
  const leave = () => (stay(), note.matches(":hover, :focus-within") || (timer = setTimeout(end, STAYS_MS)));
  for (const name of ["pointerenter", "focusin"]) note.addEventListener(name, stay);
  for (const name of ["pointerleave", "focusout"]) note.addEventListener(name, leave);
}

// Ask again for what is shown, which nobody is waiting for: what is at the top of the page already is not said twice.
export const refreshed = (action) => attempt(action, isShown);

// Run `action`; what goes wrong is said, with its remedy, except what `isSilent`.
export async function attempt(action, isSilent = ({ status }) => status === 401) {
  try {
    await action();
    return true;
  } catch (error) {
    if (!isSilent(error)) toast(error.remedy && !error.message.includes(error.remedy) ? `${error.message}: ${error.remedy}` : error.message);
    return false;
  }
}
