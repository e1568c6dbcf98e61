// Keys without a modifier. "/" searches, "g" and a letter open a view, and "?" lists the keys. They can be turned off,
// because dictation may press them by accident. The link that skips to the jobs is here, too.

import {byId} from "./dom.js"

const VIEWS = {o: "overview", d: "dead", s: "schedules", q: "lanes", f: "fleet", w: "wheel"}
const SEARCHES = {overview: "search", dead: "incidents-search", schedules: "schedules-search"}
const PAUSE_MS = 1500 // maximum time between "g" and its letter
const OFF = "tickwheel.keys-off"

const dialog = byId("keys"),
	box = byId("keys-on")

// `current` returns the name of the shown view.
export function listen(current) {
	let gone_at = -PAUSE_MS
	box.checked = localStorage.getItem(OFF) === null
	box.addEventListener("change", () => (box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "yes")))
	byId("skip").addEventListener("click", event => {
		event.preventDefault() // the address belongs to a view, and keeps its filters
		goTo((current() ?? "overview") === "overview", skip)
	})
	byId("show-keys").addEventListener("click", () => dialog.showModal())
	addEventListener("keydown", event => {
		if (!box.checked || event.ctrlKey || event.metaKey || event.altKey || isElsewhere(event.target)) return
		const isGoing = event.timeStamp - gone_at < PAUSE_MS
		gone_at = event.key === "g" ? event.timeStamp : -PAUSE_MS
		if (isGoing && event.key in VIEWS) location.hash = VIEWS[event.key]
		else if (event.key === "?") dialog.showModal()
		else if (event.key === "/") search(current())
		else return
		event.preventDefault()
	})
}

const isElsewhere = node => node.closest("input, select, textarea") || document.querySelector("dialog[open]")

const search = view =>
	goTo(view in SEARCHES, () =>
		byId(SEARCHES[view] ?? SEARCHES.overview)
			.querySelector("input")
			.focus()
	)

function skip() {
	byId("jobs").focus({preventScroll: true})
	byId("jobs").scrollIntoView()
}

// Give an element the focus. Unless it `isHere`, the overview with the element is shown first.
function goTo(isHere, focus) {
	if (isHere) return focus()
	addEventListener("hashchange", focus, {once: true}) // after the view has taken the focus
	location.hash = "overview"
}
