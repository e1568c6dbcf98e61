// Recurring jobs, with their rules and next runs. The service scans a bounded number of jobs for a page. So among a
// million one-time jobs this list continues for a while without a press, and then asks the reader.

import {call} from "./api.js"
import {button, byId, el} from "./dom.js"
import {outside, within} from "./reach.js"
import {syncCalmly} from "./steady.js"
import {refreshed} from "./toasts.js"
import {moment, now_ms, printable, recurrence, until, where} from "./words.js"

const RUNS = 4
const PAGE = 200
const BUDGET_MS = 1500

export class Schedules {
	// `onQuery` gets the prefix as fields of an address. `showFields` restores it.
	constructor(onOpen, onQuery) {
		this.onOpen = onOpen
		this.list = byId("schedules")
		this.asked = 0
		this.looked_at = -Infinity
		const form = byId("schedules-search")
		form.addEventListener("submit", event => event.preventDefault())
		form.addEventListener("input", () => {
			onQuery({prefix: form.elements.prefix.value})
			this.ask(form.elements.prefix.value)
		})
		this.upTo = el("span")
		byId("schedules-looked").append(
			this.upTo,
			button("Look further", "quiet", () => {
				if (this.list.children.length >= this.limit) this.limit += PAGE
				else this.budget *= 4
				this.refresh()
			})
		)
		setInterval(() => this.tick(), 500)
	}

	showFields({prefix = ""}) {
		byId("schedules-search").elements.prefix.value = prefix
		return this.ask(prefix)
	}

	ask(prefix) {
		Object.assign(this, {prefix, limit: PAGE, budget: BUDGET_MS})
		return this.refresh()
	}

	async refresh() {
		this.looked_at = performance.now()
		const asked = ++this.asked
		if (within(this.prefix) === null) return this.fill([], null)
		await refreshed(() => this.look(asked))
	}

	// Continue until there is enough to show, or nothing or no time is left.
	async look(asked) {
		const begun = performance.now(),
			found = []
		let cursor
		do {
			const fields = new URLSearchParams({prefix: within(this.prefix), count: RUNS, ...(cursor ? {cursor} : {})})
			const page = await call("GET", `/v1/schedules?${fields}`)
			if (asked !== this.asked) return // something else was requested in the meantime
			this.looked_at = performance.now() // so that no change interrupts a long scan
			found.push(...page.schedules)
			cursor = page.cursor
		} while (cursor && found.length < this.limit && performance.now() - begun < this.budget)
		this.fill(found, cursor)
	}

	fill(found, cursor) {
		syncCalmly(
			this.list,
			found,
			schedule => `${schedule.key}/${schedule.generation}/${schedule.pause?.at}`,
			schedule => this.make(schedule),
			null,
			{question: this.prefix}
		)
		const empty = byId("schedules-empty")
		empty.hidden = found.length > 0
		if (within(this.prefix) === null) empty.textContent = outside()
		else
			empty.textContent = cursor
				? "None so far."
				: this.prefix
					? "No recurring job has such a key."
					: "There are no recurring jobs. Set one with “every” or “cron”."
		byId("schedules-looked").hidden = !cursor
		this.upTo.textContent = cursor && `Looked at all keys up to ${printable(cursor)} `
		this.tick()
	}

	make(schedule) {
		const runs = schedule.runs.map(run => Date.parse(run))
		const [next, ...later] = runs
		const row = el(
			"button",
			{type: "button", class: "row schedule", onclick: () => this.onOpen(schedule.key)},
			el("span", {class: "when"}),
			el("span", {class: "key", title: printable(schedule.key)}, printable(schedule.key)),
			el("span", {class: "rule"}, recurrence(schedule.rule)),
			el("span", {class: "where"}, where(schedule)),
			el("span", {class: "runs"}, `${moment(next)}, then ${later.map(moment).join(" · ") || "no more"}`)
		)
		Object.assign(row.dataset, {
			state: schedule.pause && schedule.state === "pending" ? "paused" : schedule.state,
			runs: JSON.stringify(runs)
		})
		return el("li", {class: schedule.state}, row)
	}

	tick() {
		for (const row of this.list.querySelectorAll(".schedule")) {
			const when = row.firstElementChild
			const {state, runs} = row.dataset
			const next = JSON.parse(runs).find(run => run > now_ms())
			when.textContent = state !== "pending" ? state : next ? until(next) : "due"
		}
	}
}
