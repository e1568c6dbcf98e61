// Dead letters as incidents, with one card for each cause. A few letters are replayed and watched before all are
// replayed at a rate.

import {call, jobPath} from "./api.js"
import {button, byId, el, sure, svg, sync} from "./dom.js"
import {syncCalmly} from "./steady.js"
import {attempt, refreshed, toast} from "./toasts.js"
import {count, moment, plural, printable, where} from "./words.js"

const KEYS = 5
const TRIED = 3
const WATCH_MS = 1000
const LETTERS_MAX = 10_000
const RATES = {1: "1 a second", 10: "10 a second", 100: "100 a second", 0: "all at once"}
const ENDS = {done: "went well", dead: "died again", pending: "to come"}

export class Incidents {
	// `onQuery` gets the search as fields of an address. `showFields` restores it.
	constructor(onOpen, onQuery, onChange) {
		Object.assign(this, {onOpen, onChange, search: "", asked: 0, looked_at: -Infinity})
		this.tried = new Map() // by fingerprint: the state of each tried key
		this.last = new Map() // by fingerprint: the last answer; a watched incident stays on the page
		const form = byId("incidents-search")
		form.addEventListener("submit", event => event.preventDefault())
		form.addEventListener("input", () => {
			this.search = form.elements.search.value
			onQuery({search: this.search})
			this.refresh()
		})
		setInterval(() => document.hidden || this.watch(), WATCH_MS)
	}

	showFields({search = ""}) {
		byId("incidents-search").elements.search.value = this.search = search
		return this.refresh()
	}

	async refresh() {
		this.looked_at = performance.now()
		const asked = ++this.asked
		await refreshed(async () => {
			const found = await this.look({search: this.search, keys: KEYS})
			if (asked === this.asked) this.fill(found)
		})
	}

	look(fields) {
		return call("GET", `/v1/incidents?${new URLSearchParams(fields)}`)
	}

	fill({incidents, looked_at, is_all}) {
		const watched = [...this.tried.keys()].filter(name => !incidents.some(each => each.fingerprint === name))
		const gone = watched.map(name => ({...this.last.get(name), count: 0, keys: []}))
		for (const each of incidents) this.last.set(each.fingerprint, each)
		syncCalmly(
			byId("incidents"),
			[...incidents, ...gone],
			each => each.fingerprint,
			each => this.make(each),
			(node, each) => this.update(node, each),
			{question: this.search}
		)
		const empty = byId("incidents-empty")
		empty.hidden = incidents.length + gone.length > 0 || !this.search
		empty.textContent = "No dead letter has that."
		byId("incidents-bound").hidden = is_all
		byId("incidents-bound").textContent = `These are the latest ${plural(looked_at, "dead letter")}; there are more.`
	}

	make({fingerprint, error}) {
		const rate = el(
			"select",
			{"aria-label": "How fast"},
			...Object.entries(RATES).map(([value, text]) => el("option", {value, selected: value === "10"}, text))
		)
		const again = (limit, per_s) => () => attempt(() => this.replay(fingerprint, limit, per_s()))
		return el(
			"li",
			{class: "incident"},
			el(
				"div",
				{class: "what"},
				el("h3", {class: "error"}, printable(error) || "no error was kept"),
				el("p", {class: "about"}),
				el("details", {class: "example"}, el("summary", {}, "The latest error, whole"), el("pre", {tabindex: 0})),
				el("p", {class: "keys"}),
				el("p", {class: "tried", role: "status", hidden: true})
			),
			el("div", {class: "spark"}),
			el(
				"div",
				{class: "acts writes"},
				button(
					`Try ${TRIED}`,
					"try",
					again(TRIED, () => 0)
				),
				sure(
					"Replay all",
					"Really replay them?",
					again(LETTERS_MAX, () => Number(rate.value)),
					"primary",
					{class: "primary all"}
				),
				rate
			)
		)
	}

	update(node, incident) {
		const {
			fingerprint,
			error,
			errors,
			example,
			count: letters,
			places,
			first_at,
			last_at,
			by_hour,
			keys,
			raised_in
		} = incident
		const part = name => node.querySelector(`.${name}`)
		const span =
			first_at === last_at
				? moment(Date.parse(last_at))
				: `${moment(Date.parse(first_at))} – ${moment(Date.parse(last_at))}`
		const went = places
			.slice(0, TRIED)
			.map(place => printable(where(place)))
			.join(", ")
		const kinds = errors > 1 ? ` of ${errors} different errors` : ""
		const more = places.length > TRIED ? ` and ${places.length - TRIED} more` : ""
		const raised = raised_in ? ` · raised in ${printable(raised_in)}` : ""
		part("about").textContent = `${plural(letters, "letter")}${kinds} · ${went}${more} · ${span}${raised}`
		sync(
			part("keys"),
			keys,
			key => key,
			key => el("button", {type: "button", class: "key", onclick: () => this.onOpen(key)}, printable(key))
		)
		part("example").hidden = example === error && error.length < 99 // longer texts are cut on a phone
		part("example").lastElementChild.textContent = printable(example)
		part("spark").replaceChildren(spark(by_hour))
		part("try").hidden = letters <= TRIED
		part("all").hidden = node.querySelector("select").hidden = letters === 0
		part("try").setAttribute("aria-label", `Try ${TRIED} of: ${printable(error)}`)
		if (!part("all").classList.contains("asked"))
			part("all").textContent = `Replay all ${count(letters)}${errors > 1 ? ` · ${errors} errors` : ""}`
		this.report(node, fingerprint)
	}

	// Replay the latest `limit` letters, `per_s` per second. If it is 0, replay all at once.
	async replay(fingerprint, limit, per_s) {
		const {
			incidents: [incident]
		} = await this.look({search: this.search, fingerprint, keys: limit})
		if (!incident) return void toast("None of these is dead any more")
		const items = incident.keys.map((key, number) => ({do: "replay", key, delay: per_s ? number / per_s : 0}))
		const {results} = await call("POST", "/v1/jobs:batch", {body: {items}})
		const done = results.filter(({outcome}) => outcome === "replayed").map(({key}) => key)
		const left = results.length - done.length
		const pace = per_s && done.length > 1 ? `, ${RATES[per_s]}` : ""
		toast(
			`Replaying ${plural(done.length, "letter")}${pace}${left ? `; ${left} had changed meanwhile, and were left alone` : ""}`
		)
		this.tried.set(fingerprint, new Map(done.slice(0, TRIED).map(key => [key, "pending"])))
		await this.refresh()
		this.onChange()
	}

	// Follow the replayed letters until all have ended.
	async watch() {
		for (const [fingerprint, keys] of this.tried) {
			for (const [key, state] of keys) {
				if (state === "pending") keys.set(key, await stateOf(key))
			}
			const node = [...byId("incidents").children].find(each => each.dataset.key === fingerprint)
			if (node) this.report(node, fingerprint)
		}
	}

	report(node, fingerprint) {
		const states = [...(this.tried.get(fingerprint)?.values() ?? [])]
		const text = Object.entries(ENDS)
			.map(([state, said]) => [states.filter(each => each === state).length, said])
			.filter(([n]) => n)
			.map(([n, said]) => `${n} ${said}`)
			.join(", ")
		const tried = node.querySelector(".tried")
		tried.hidden = !text
		tried.classList.toggle("bad", states.includes("dead"))
		if (tried.textContent !== text) tried.textContent = text && `Of the last replay: ${text}`
	}
}

// A job that has succeeded has no row any more. A job that is dead has failed again.
async function stateOf(key) {
	try {
		const {state} = await call("GET", jobPath(key))
		return state === "dead" ? "dead" : "pending"
	} catch (error) {
		return error.status === 404 ? "done" : "pending"
	}
}

// The number of letters in each of the last 24 hours, also as text.
function spark(by_hour) {
	const most = Math.max(1, ...by_hour),
		lately = by_hour.reduce((sum, n) => sum + n, 0)
	const bars = by_hour.map((n, hour) => {
		const height = n ? Math.max(2, (22 * n) / most) : 0.75
		return svg("rect", {x: 4 * hour, y: 24 - height, width: 3, height})
	})
	return svg("svg", {viewBox: "0 0 96 24", role: "img", "aria-label": `${count(lately)} in the last 24 hours`}, ...bars)
}
