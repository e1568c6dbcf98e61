// Which view is shown, with which filters, and which job is open in front of it. The address contains all this, so each
// state can be linked to, and reached with Back.

import {jobAddress, read, viewAddress} from "./address.js"
import {byId} from "./dom.js"
import {reaches} from "./reach.js"
import {printable} from "./words.js"

export const TITLES = {
	overview: "Overview",
	dead: "Dead letters",
	schedules: "Schedules",
	lanes: "Handlers and queues",
	fleet: "Fleet",
	wheel: "Wheel"
}

export class Views {
	// `onShow` gets the name and the filters of each view that is shown. `onJob` gets the key of a job to open, or
	// null.
	constructor(onShow, onJob) {
		this.onShow = onShow
		this.onJob = onJob
		this.dead = 0
		this.fields = {}
		addEventListener("hashchange", () => {
			const before = this.current
			this.show()
			if (this.current === before) return
			byId("main").focus({preventScroll: true})
			scrollTo(0, 0)
		})
	}

	show() {
		const {key, name, fields} = read()
		const before = this.key
		this.key = key
		if (key === undefined) this.turnTo(Object.hasOwn(TITLES, name) && reaches(name) ? name : "overview", fields)
		else if (!this.current) this.turnTo("overview", {})
		if (key !== before) this.onJob(key ?? null)
		this.title()
	}

	turnTo(name, fields) {
		const isSame = name === this.current && viewAddress(name, fields) === viewAddress(name, this.fields)
		Object.assign(this, {current: name, fields})
		if (isSame) return
		for (const view of document.querySelectorAll("[data-view]")) view.hidden = view.dataset.view !== name
		for (const link of byId("views").children) {
			if (link.hash === `#${name}`) link.setAttribute("aria-current", "page")
			else link.removeAttribute("aria-current")
		}
		this.onShow(name, fields)
	}

	openJob(key) {
		if (location.hash === jobAddress(key)) this.onJob(key)
		else location.hash = jobAddress(key)
	}

	// The job of `key` was closed. The address becomes that of its view again, unless it has changed since.
	closedJob(key) {
		if (read().key !== key) return
		this.key = undefined
		this.rewrite()
		this.title()
	}

	// The filters of a view were changed by its form.
	filtered(name, fields) {
		if (name !== this.current) return
		this.fields = fields
		if (this.key === undefined) this.rewrite()
	}

	rewrite() {
		history.replaceState(null, "", viewAddress(this.current, this.fields))
	}

	// The title has the number of dead letters, so a tab in the background shows it.
	count(dead) {
		this.dead = dead
		const badge = byId("dead-count")
		badge.hidden = !dead
		badge.textContent = dead > 9999 ? "9999+" : dead
		this.title()
	}

	title() {
		const what =
			this.key !== undefined ? printable(this.key) : this.current === "overview" ? null : TITLES[this.current]
		const title = (this.dead ? `(${this.dead} dead) ` : "") + (what === null ? "tickwheel" : `${what} · tickwheel`)
		if (document.title !== title) document.title = title
	}
}
