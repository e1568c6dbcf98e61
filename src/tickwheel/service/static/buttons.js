// Buttons: a plain one, and one that asks once more before it acts.

import { el } from "./dom.js";

export const button = (text, look, onclick, more = {}) => el("button", { type: "button", class: look, onclick, ...more }, text);

// Asks once more, and forgets when the focus goes elsewhere.
export function sure(text, question, onSure, look = "danger", more = {}) {
  let isAsked = false;
  const node = button(text, look, () => {
    if (isAsked) return onSure();
    isAsked = true;
    node.textContent = question;
    node.classList.add("asked");
  }, more);
  node.addEventListener("blur", () => {
    isAsked = false;
    node.textContent = text;
    node.classList.remove("asked");
  });
  return node;
}
