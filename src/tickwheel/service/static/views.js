// Which view is shown: the one that the address names after its "#", so that it can be linked to and gone back from.

import { byId } from "./dom.js";

const TITLES = { overview: "tickwheel", dead: "Dead letters", schedules: "Schedules", fleet: "Fleet", wheel: "Wheel" };

const named = () => (location.hash.slice(1) in TITLES ? location.hash.slice(1) : "overview");

export class Views {
  // `onShow` gets the name of each view that is shown.
  constructor(onShow) {
    this.onShow = onShow;
    this.dead = 0;
    addEventListener("hashchange", () => {
      if (this.show()) byId("main").focus({ preventScroll: true });
      scrollTo(0, 0);
    });
  }

  get current() {
    return this.name;
  }

  show() {
    const name = named();
    if (name === this.name) return false;
    this.name = name;
    for (const view of document.querySelectorAll("[data-view]")) view.hidden = view.dataset.view !== name;
    for (const link of byId("views").children) {
      if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.title();
    this.onShow(name);
    return true;
  }

  // How many dead letters there are belongs into the title: the tab says it while another is in front.
  count(dead) {
    this.dead = dead;
    const badge = byId("dead-count");
    badge.hidden = !dead;
    badge.textContent = dead > 9999 ? "9999+" : dead;
    this.title();
  }

  title() {
    const title = (this.dead ? `(${this.dead} dead) ` : "") + (this.name === "overview" ? "tickwheel" : `${TITLES[this.name]} · tickwheel`);
    if (document.title !== title) document.title = title;
  }
}
