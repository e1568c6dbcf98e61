// Firings and their lateness, newest first, from the stream.

import {byId, el} from "./dom.js"
import {syncCalmly} from "./steady.js"
import {clockTimeMs, lateness, percent, printable} from "./words.js"

const SHOWN = 60
const MARKED = 10 // of more firings in a second, marks for all would say nothing and be painted in every frame
const CROWD_MS = 500 // minimum interval at which the list is drawn, because it changes completely each time

export class Firings {
	constructor(onOpen) {
		this.onOpen = onOpen
		this.byId = new Map()
		this.isHeld = false
		this.since = this.fresh = 0
		const hold = byId("hold")
		hold.addEventListener("click", () => {
			this.isHeld = !this.isHeld
			hold.setAttribute("aria-pressed", this.isHeld)
			hold.textContent = this.isHeld ? "Go on" : "Hold"
			this.show()
		})
	}

	// Returns the number of new firings.
	take({firings, is_snapshot}) {
		if (is_snapshot) {
			this.showGap(firings)
			this.byId.clear()
		}
		const before = this.byId.size
		for (const firing of firings) this.byId.set(firing.fire_id, firing)
		const fresh = is_snapshot ? 0 : this.byId.size - before
		if (performance.now() - this.since > 1000) Object.assign(this, {since: performance.now(), fresh: 0})
		this.fresh += fresh
		this.isMarking = this.fresh <= MARKED && !this.later
		for (const old of [...this.byId.keys()].slice(0, -SHOWN)) this.byId.delete(old)
		if (this.isMarking) this.show()
		else this.later ??= setTimeout(() => this.show(), CROWD_MS)
		return fresh
	}

	// A stream that was interrupted has missed firings if it begins with none that is known.
	showGap(firings) {
		const known = [...this.byId.values()],
			at = all => all.map(({fired_at}) => Date.parse(fired_at))
		if (!known.length || !firings.length || firings.some(({fire_id}) => this.byId.has(fire_id))) return
		byId("gap").hidden = false
		byId("gap").textContent =
			`Not seen: firings from ${clockTimeMs(Math.max(...at(known)))} to ${clockTimeMs(Math.min(...at(firings)))}.`
	}

	show() {
		clearTimeout(this.later)
		this.later = null
		const newest = [...this.byId.values()].sort((a, b) => Date.parse(b.fired_at) - Date.parse(a.fired_at))
		syncCalmly(
			byId("firings"),
			newest,
			firing => firing.fire_id,
			firing => this.make(firing),
			update,
			{isHeld: this.isHeld}
		)
		byId("firings-empty").hidden = newest.length > 0
	}

	make(firing) {
		const row = el(
			"button",
			{type: "button", class: "row fired", onclick: () => this.onOpen(firing.key)},
			el("span", {class: "when"}, clockTimeMs(Date.parse(firing.fired_at))),
			el("span", {class: "key"}, printable(firing.key)),
			el("span", {class: "outcome"}),
			el("span", {class: "late"}, `+${lateness(firing.lateness_ms)}`)
		)
		return el("li", {class: this.isMarking && "new"}, row)
	}
}

function update(node, firing) {
	const outcome = node.querySelector(".outcome")
	const {progress} = firing
	outcome.textContent =
		firing.outcome +
		(progress ? ` ${percent(progress)}` : "") +
		(firing.attempt > 1 ? `, attempt ${firing.attempt}` : "")
	outcome.className = `outcome ${firing.outcome}`
	outcome.title = firing.error ?? (progress ? printable(progress.note) : "")
}
