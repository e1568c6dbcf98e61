// The list of jobs. It is searched by key, state, handler, target, error and part of the calendar. Each row opens its
// job.

import {call, hasToken} from "./api.js"
import {Bulk} from "./bulk.js"
import {byId, el} from "./dom.js"
import {stuckOf} from "./lanes.js"
import {isBounded, outside, within} from "./reach.js"
import {syncCalmly} from "./steady.js"
import {refreshed} from "./toasts.js"
import {localTime, moment, now_ms, plural, printable, recurrence, span, until, where} from "./words.js"

const PHONE = matchMedia("(max-width: 620px)") // here the overview is at most three screens long
const FIRST = PHONE.matches ? 6 : 50,
	PAGE = 50
const ASKED_MAX = 1000 // maximum that the service returns at once
const HELD_MAX = 5 // due jobs that no node takes are listed up to this number
const BUDGET_MS = 1000
const STATES = ["pending", "running", "paused", "dead"]
const PARTS = ["contains", "handler", "target", "error", "payload", "field"] // named as in the API
const NONE = Object.fromEntries(PARTS.map(name => [name, ""]))
const HINT = " Set one: tickwheel set tea --delay 4m --target log"

export class Jobs {
	// `onQuery` gets the search as fields of an address. `showFields` restores it.
	constructor(onOpen, onQuery) {
		this.onOpen = onOpen
		this.onQuery = onQuery
		this.bulk = new Bulk(() => this.refresh())
		this.list = byId("jobs")
		this.query = {prefix: "", state: "pending", ...NONE}
		this.limit = FIRST
		this.budget = BUDGET_MS
		this.asked = 0
		// The rights of a token are not known yet. Without a token the default list can be requested at once.
		const path = `/v1/jobs?limit=${FIRST}&order=due`
		this.early = hasToken || location.hash ? null : {path, answer: call("GET", path).catch(() => null)}
		const form = byId("search")
		form.addEventListener("submit", event => event.preventDefault())
		form.addEventListener("input", ({target}) => {
			const {from, until: end, ...fields} = Object.fromEntries(new FormData(form))
			if (!["from", "until"].includes(target.name)) return this.ask(fields)
			const typed = part(Date.parse(from), Date.parse(end))
			form.elements.until.setCustomValidity(typed || !(from || end) ? "" : "It ends before it begins.")
			return form.elements.until.reportValidity() && this.ask({...fields, part: typed})
		})
		byId("more").addEventListener("click", () => {
			if (this.list.children.length >= this.limit) this.limit += PAGE
			else this.budget *= 4
			this.refresh()
		})
		setInterval(() => this.tick(), 100)
	}

	showFields({prefix = "", state, from, until: end, ...rest}) {
		const parts = Object.fromEntries(PARTS.map(name => [name, rest[name] ?? ""]))
		return this.show({
			prefix,
			part: part(Number(from), Number(end)),
			state: STATES.includes(state) ? state : STATES[0],
			...parts
		})
	}

	// Show the jobs of `query`, and show `query` in the form.
	show(query) {
		const asked = {...NONE, ...query},
			{elements} = byId("search")
		for (const name of ["prefix", "state", ...PARTS]) elements[name].value = asked[name]
		elements.from.value = localTime(asked.part?.from)
		elements.until.value = localTime(asked.part?.until)
		elements.until.setCustomValidity("")
		if (PARTS.some(name => asked[name])) byId("narrow").open = true
		return this.ask(asked)
	}

	// The filters in use, besides prefix, state and instants.
	parts() {
		return Object.fromEntries(PARTS.map(name => [name, this.query[name]]).filter(([, value]) => value))
	}

	// The list by due time contains everything that is due. It has no cursor, and ends after one answer.
	isByDue() {
		const {state, prefix} = this.query
		return state === "pending" && !within(prefix) && !Object.keys(this.parts()).length
	}

	// Return the query with the fields of the API.
	filter() {
		const {prefix, state, part: due} = this.query
		const fields = {prefix, ...this.parts(), ...(state === "paused" ? {paused: true} : {state})}
		if (due?.from) fields.due_from = due.from / 1000
		if (due?.until) fields.due_until = due.until / 1000
		return fields
	}

	// Request jobs with `change`, which is a part of the query.
	ask(change) {
		this.query = {...this.query, ...change}
		Object.assign(this, {limit: FIRST, budget: BUDGET_MS})
		const {part: due, prefix, state} = this.query
		this.onQuery({
			prefix,
			state: state === STATES[0] ? "" : state,
			from: due?.from,
			until: due?.until,
			...this.parts()
		})
		const filter = byId("filter")
		filter.hidden = !due
		if (due) {
			const clear = el(
				"button",
				{type: "button", class: "quiet", onclick: () => this.show({...this.query, part: null})},
				"Show all"
			)
			filter.replaceChildren(`Due ${said(due)} `, clear)
		}
		this.bulk.show(state, this.filter())
		return this.refresh()
	}

	async refresh() {
		const asked = ++this.asked
		const prefix = within(this.query.prefix)
		if (prefix === null) return this.fill({jobs: [], cursor: null})
		const {state, prefix: begins, ...filter} = this.filter()
		const fields = {
			limit: Math.min(this.limit, ASKED_MAX),
			...filter,
			...(this.isByDue() ? {order: "due"} : {prefix, ...(state && {state})})
		}
		await refreshed(() => this.look(asked, new URLSearchParams(fields)))
	}

	// One answer scans a bounded number of keys. Ask again until the list is full or the time is up.
	async look(asked, fields) {
		const begun = performance.now(),
			found = []
		let cursor
		do {
			if (cursor) fields.set("cursor", cursor)
			const page = await this.page(`/v1/jobs?${fields}`)
			if (asked !== this.asked) return // an older answer does not overwrite a newer one
			found.push(...page.jobs)
			cursor = page.cursor
		} while (cursor && found.length < this.limit && performance.now() - begun < this.budget)
		const held = this.isByDue() && !this.query.part ? found.filter(stuckOf) : []
		if (held.length > HELD_MAX) {
			fields.set("due_from", now_ms() / 1000)
			const {jobs} = await call("GET", `/v1/jobs?${fields}`)
			if (asked !== this.asked) return
			found.splice(0, Infinity, ...found.filter(job => !stuckOf(job) && Date.parse(job.due_at) < now_ms()), ...jobs)
		}
		this.showHeld(held)
		this.fill({jobs: found.slice(0, this.limit), cursor})
	}

	async page(path) {
		const {early} = this
		this.early = null
		return (early?.path === path && (await early.answer)) || call("GET", path)
	}

	// Jobs that no node takes do not fill the list.
	showHeld(held) {
		byId("held").hidden = held.length <= HELD_MAX
		const reasons = [...new Map(held.map(job => [stuckOf(job)?.text, stuckOf(job)])).values()].filter(Boolean)
		byId("held").replaceChildren(
			"Not listed: ",
			...reasons.map(({text, waiting}) => `${plural(waiting, "due job")}, as ${printable(text)}; `),
			el("a", {href: "#lanes"}, "see queues")
		)
	}

	fill({jobs, cursor}) {
		syncCalmly(
			this.list,
			jobs,
			job => job.key,
			job => this.make(job),
			update,
			{question: JSON.stringify(this.query)}
		)
		const empty = byId("jobs-empty")
		const isCut = cursor && jobs.length < this.limit
		empty.hidden = jobs.length > 0 && !isCut
		if (within(this.query.prefix) === null) empty.textContent = outside()
		else if (isCut)
			empty.textContent = `${jobs.length ? "More may follow" : "None so far"}: searched up to “${printable(cursor).slice(0, 80)}”.`
		else
			empty.textContent =
				this.query.prefix || this.query.part || Object.keys(this.parts()).length || isBounded()
					? `No ${this.query.state} job matches.`
					: `No job is ${this.query.state}.${this.query.state === "pending" ? HINT : ""}`
		byId("more").hidden = jobs.length < this.limit ? !cursor : this.isByDue() && this.limit >= ASKED_MAX
		byId("more").textContent = isCut ? "Look further" : "Show more"
		this.tick()
	}

	make(job) {
		const button = el(
			"button",
			{type: "button", class: "row", onclick: () => this.onOpen(job.key)},
			el("span", {class: "when"}),
			el("span", {class: "key"}, printable(job.key)),
			el("span", {class: "where"}),
			el("span", {class: "at"})
		)
		return el("li", {}, button)
	}

	tick() {
		for (const node of this.list.children) {
			const {due, state, lacks, paused} = node.dataset
			const text = paused
				? "paused"
				: lacks
					? `waits for ${lacks}`
					: state === "pending"
						? until(Number(due))
						: state === "dead"
							? moment(Number(due))
							: state
			const when = node.querySelector(".when")
			if (when.textContent !== text) when.textContent = text
			node.classList.toggle("soon", state === "pending" && due - now_ms() < 5000)
		}
	}
}

// A range of instants, which may be open at one end. It is null if it is open at both ends or empty.
function part(from, end) {
	if (!from && !end) return null
	return from && end && from >= end ? null : {from: from || undefined, until: end || undefined}
}

function said({from, until: end}) {
	if (from && end) return `${moment(from)}, for ${span(end - from)}`
	return from ? `from ${moment(from)} on` : `before ${moment(end)}`
}

function update(node, job) {
	const due = Date.parse(job.due_at)
	const at = node.querySelector(".at")
	Object.assign(node.dataset, {
		due,
		state: job.state,
		paused: job.pause ? "yes" : "",
		lacks: job.lacks_handler ? "its handler" : job.awaits_worker ? "a worker" : ""
	})
	const held = stuckOf(job)
	node.querySelector(".where").textContent = held ? printable(held.text) : where(job)
	node.classList.toggle("stuck", Boolean(held))
	node.classList.toggle("dead", job.state === "dead")
	at.textContent = job.state === "dead" ? (job.error ?? "") : moment(due) + (job.recurrence ? " ↻" : "")
	at.title = job.recurrence ? recurrence(job.recurrence) : ""
}
