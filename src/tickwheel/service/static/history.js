// A job's history: the store's records, and this process's latest firings.

import {call, jobPath} from "./api.js"
import {button, el} from "./dom.js"
import {attempt} from "./toasts.js"
import {traceLink} from "./traces.js"
import {fromTo, lateness, moment, plural} from "./words.js"

const SHOWN = 5
const PAGE = 100 // number of records that the service returns at once

const SETS = ["created", "replaced", "replayed"]

const nameOf = ({generation, attempt}) => `${generation}/${attempt}`

// Return the store's records of `key`, and the events without a record: firings of this process that have succeeded or
// are running, and the time when the job was set.
export function past(key, records, firings, job = null) {
	const kept = new Set(records.map(nameOf))
	const fresh = firings.filter(firing => !kept.has(nameOf(firing))).map(firing => ({...firing, at: firing.fired_at}))
	const all = [...records, ...fresh, ...unknown(records, job)].sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
	if (!all.length) return null
	const list = el("ul", {}, ...all.slice(0, SHOWN).map(row))
	const earlier = all.slice(SHOWN)
	const show = () => {
		list.append(...earlier.map(row))
		more.replaceWith(...(records.length < PAGE ? [] : [older(key, list, records.at(-1).number)]))
	}
	const more = earlier.length ? button(`Show ${earlier.length} earlier`, "quiet", show) : ""
	return el(
		"section",
		{class: "past"},
		el("h3", {}, `History: ${records.length < PAGE ? "" : "the last "}${plural(all.length, "event")}`),
		list,
		more
	)
}

// For a one-time job the history has no record of a program's act. The job itself has the time when it was set.
function unknown(records, job) {
	const isOf = ({at, outcome}) => SETS.includes(outcome) && Date.parse(at) >= Date.parse(job.first_set_at)
	if (!job || records.length === PAGE || records.some(isOf)) return []
	return [{at: job.first_set_at, outcome: "set", attempt: 0, by: "a client whose name is not kept"}]
}

// A button that adds the page of records before number `before`. It stays while there are more pages.
function older(key, list, before) {
	const read = async () => {
		const {records} = await call("GET", `${jobPath(key, ":history")}?before=${before}`)
		list.append(...records.map(row))
		if (records.length < PAGE) node.remove()
		else before = records.at(-1).number
	}
	let isAsked = false
	const node = button("Show older ones", "quiet", async () => {
		if (isAsked) return // a second press would show the same page twice
		isAsked = true
		await attempt(read)
		isAsked = false
	})
	return node
}

function row({at, outcome, attempt, lateness_ms, took_ms, by, error, note, traceback, trace, due_at, was_due_at}) {
	const facts = [
		was_due_at && fromTo(was_due_at, due_at),
		attempt > 1 && `attempt ${attempt}`,
		lateness_ms != null && `+${lateness(lateness_ms)}`,
		took_ms != null && `took ${lateness(took_ms)}`,
		by && `${attempt ? "on" : "by"} ${by}`
	]
	return el(
		"li",
		{},
		`${moment(Date.parse(at))} `,
		el("span", {class: `outcome ${outcome}`}, outcome.replace("_", " ")),
		` ${facts.filter(Boolean).join(", ")}`,
		trace ? el("span", {}, ", trace ", traceLink(trace, trace.split("-")[1])) : null,
		error ? el("p", {class: "error"}, error) : null,
		note ? el("p", {class: "note"}, note) : null,
		traceback ? el("details", {}, el("summary", {}, "Traceback"), el("pre", {tabindex: 0}, traceback)) : null
	)
}
