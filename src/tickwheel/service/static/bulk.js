// One act on all jobs that the search finds. They are counted first. Then the act is done, in bounded requests.

import {restore} from "./acts.js"
import {call, jobPath} from "./api.js"
import {countFirst} from "./counted.js"
import {byId, el} from "./dom.js"
import {toast} from "./toasts.js"
import {plural} from "./words.js"

const VERBS = {
	running: {stop: "Stop"},
	pending: {pause: "Pause", cancel: "Cancel", run: "Run now", move: "Move", spread: "Spread"},
	paused: {resume: "Resume", cancel: "Cancel"},
	dead: {replay: "Replay", cancel: "Remove"}
}
const AMOUNTS = {move: "shift", spread: "over"}
const SURE_MAX = 100 // for more jobs the user must type their number
const ITEMS_MAX = 1000
const back = ({was_due_at}) => ({do: "move", at: was_due_at})
const UNDO = {move: back, spread: back, pause: () => ({do: "resume"}), resume: () => ({do: "pause"})}

export class Bulk {
	// `onDone` is called once jobs have changed.
	constructor(onDone) {
		this.onDone = onDone
		this.verbs = el("select", {name: "verb", "aria-label": "What to do with them"})
		this.amount = el(
			"label",
			{},
			"by",
			el("input", {name: "amount", type: "number", step: "any", value: 60, required: true, "aria-label": "How long"}),
			"min"
		)
		const submit = el("button", {type: "submit"})
		const note = el("input", {name: "note", maxlength: 250, placeholder: "Why?", "aria-label": "Why it is done"})
		const stay = event => event.stopPropagation() // so that typing a note does not forget the count
		this.sure = el(
			"label",
			{},
			"",
			el("input", {name: "sure", inputmode: "numeric", autocomplete: "off", oninput: stay})
		)
		this.form = el("form", {class: "bulk"}, this.verbs, this.amount, note, this.sure, submit)
		this.form.addEventListener("input", () => (this.showAmount(), this.askSure(0)))
		this.forget = countFirst(this.form, submit, "Count them", () => this.count())
		byId("bulk").append(el("summary", {}, "All of these …"), this.form)
	}

	// The jobs are those of `filter`, which has the API's fields. All are in one `state`.
	show(state, filter) {
		this.filter = filter
		this.names = VERBS[state]
		byId("bulk").hidden = !this.names
		this.verbs.replaceChildren(...Object.entries(this.names ?? {}).map(([value, text]) => el("option", {value}, text)))
		this.showAmount()
		this.askSure(0)
		this.forget()
	}

	// If there are many jobs, the user must type their number before the second press.
	askSure(count) {
		const {sure} = this.form.elements,
			required = count > SURE_MAX
		this.sure.hidden = !required
		this.sure.firstChild.textContent = `Type ${count} to confirm`
		Object.assign(sure, {value: "", required, pattern: String(count)})
	}

	showAmount() {
		this.amount.hidden = !(this.verbs.value in AMOUNTS)
		this.amount.firstChild.textContent = this.verbs.value === "spread" ? "over" : "by"
	}

	async count() {
		const verb = this.verbs.value,
			name = this.names[verb]
		const amount = verb in AMOUNTS ? {[AMOUNTS[verb]]: 60 * this.form.elements.amount.value} : {}
		const act = verb === "stop" ? {do: "cancel", running: true} : {do: verb}
		const body = {...act, ...this.filter, ...amount, note: this.form.elements.note.value}
		const {matched, start} = await through({...body, dry_run: true})
		if (!matched) return void toast("There are none")
		this.askSure(matched)
		return {
			text: `${name} ${plural(matched, "job")}`,
			look: "danger",
			act: () => this.act({...body, cursor: start})
		}
	}

	async act(body) {
		const isRestored = body.do === "cancel" && body.state === "pending"
		const jobs = isRestored ? await this.read() : []
		const {changed, refused, changes} = await through({...body, changes: true})
		const left = refused ? `; ${refused} had begun or changed meanwhile, and were left alone` : ""
		const gone = jobs.filter(({key}) => changes.some(each => each.key === key))
		const undo = gone.length
			? () => each(gone, restore)
			: UNDO[body.do] && changed
				? () => undone(body.do, changes)
				: null
		toast(
			`${body.running ? "Stopping" : "Changed"} ${plural(changed, "job")}${left}`,
			undo && (async () => (await undo(), this.onDone()))
		)
		this.askSure(0)
		this.form.elements.note.value = ""
		this.onDone()
	}

	// The whole jobs, if they are few.
	async read() {
		const {jobs, cursor} = await call("GET", `/v1/jobs?${new URLSearchParams({...this.filter, limit: SURE_MAX})}`)
		const found = []
		if (!cursor) await each(jobs, async ({key}) => found.push(await call("GET", jobPath(key))))
		return found
	}
}

async function each(jobs, work) {
	for (const job of jobs) await work(job)
}

// Undo `verb` on the jobs that have not run or changed since.
async function undone(verb, changes) {
	let done = 0
	for (let i = 0; i < changes.length; i += ITEMS_MAX) {
		const items = changes
			.slice(i, i + ITEMS_MAX)
			.map(each => ({...UNDO[verb](each), key: each.key, if_generation: each.generation}))
		const {results} = await call("POST", "/v1/jobs:batch", {body: {items}})
		done += results.filter(({outcome}) => outcome !== "refused").length
	}
	const left = changes.length - done
	toast(`Undone for ${plural(done, "job")}${left ? `; ${left} had run or changed meanwhile, and were left alone` : ""}`)
}

// Send `body` until an answer has no cursor. Return the sums, and the first cursor.
async function through(body) {
	const sums = {matched: 0, changed: 0, refused: 0},
		changes = []
	let start = null
	do {
		const answer = await call("POST", "/v1/jobs:bulk", {body})
		for (const name of Object.keys(sums)) sums[name] += answer[name]
		changes.push(...answer.changes)
		start ??= answer.start
		body = {...body, cursor: answer.cursor}
	} while (body.cursor)
	return {...sums, changes, start}
}
