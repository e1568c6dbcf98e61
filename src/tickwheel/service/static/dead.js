// Dead letters, each with its error. They can be replayed or removed.

import {cancel, replay, replayAll} from "./acts.js"
import {call} from "./api.js"
import {button, byId, el, sure} from "./dom.js"
import {syncCalmly} from "./steady.js"
import {attempt, refreshed} from "./toasts.js"
import {count, moment, plural, printable, where} from "./words.js"

const PAGE = 50

export class Dead {
	constructor(onOpen, onChange) {
		this.onOpen = onOpen
		this.onChange = onChange
		this.limit = PAGE
		this.jobs = []
		this.asked = 0
		byId("newest").addEventListener("change", () => this.refresh())
		byId("letters-more").addEventListener("click", () => {
			this.limit += PAGE
			this.refresh()
		})
		const all = () => attempt(async () => (await replayAll(this.jobs), this.onChange()))
		this.all = sure("Replay all shown", "Really replay them?", all, "primary", {class: "primary writes"})
		byId("dead-tools").append(this.all)
	}

	async refresh() {
		const asked = ++this.asked
		await refreshed(async () => {
			const order = byId("newest").checked ? "latest" : "key"
			const fields = new URLSearchParams({state: "dead", limit: Math.min(this.limit, 1000), order})
			const found = await call("GET", `/v1/jobs?${fields}`)
			if (asked === this.asked) this.fill(found) // an older answer does not overwrite a newer one
		})
	}

	fill({jobs, cursor}) {
		this.jobs = jobs
		syncCalmly(
			byId("letters"),
			jobs,
			job => `${job.key}/${job.generation}`,
			job => this.make(job)
		)
		byId("letters-empty").hidden = jobs.length > 0
		byId("letters-empty").textContent = "No dead letters. All is well."
		byId("letters-more").hidden = !cursor || this.limit >= 1000
		this.all.hidden = jobs.length === 0
		if (!this.all.classList.contains("asked"))
			this.all.textContent = cursor ? `Replay these ${count(jobs.length)}` : "Replay all"
	}

	make(job) {
		const act = work => () => attempt(async () => (await work(), this.onChange()))
		return el(
			"li",
			{class: "letter"},
			el(
				"div",
				{class: "what"},
				el(
					"button",
					{type: "button", class: "key", title: printable(job.key), onclick: () => this.onOpen(job.key)},
					printable(job.key)
				),
				el("p", {class: "error"}, job.error ?? "no error was kept"),
				el(
					"p",
					{class: "about"},
					`${where(job)} · ${plural(job.attempt, "attempt")} · due ${moment(Date.parse(job.due_at))}`
				)
			),
			el(
				"div",
				{class: "acts writes"},
				sure(
					"Remove",
					"Really remove?",
					act(() => cancel(job, this.onChange)),
					"danger",
					{"aria-label": `Remove ${printable(job.key)}`}
				),
				button(
					"Replay",
					"",
					act(() => replay(job)),
					{"aria-label": `Replay ${printable(job.key)}`}
				)
			)
		)
	}
}
