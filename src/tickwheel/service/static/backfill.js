// Run the past again: the runs of a recurring job in a range. They are counted before they are set.

import {call} from "./api.js"
import {countFirst} from "./counted.js"
import {el} from "./dom.js"
import {toast} from "./toasts.js"
import {moment, plural} from "./words.js"

export function backfill({key, recurrence}) {
	if (!recurrence) return null
	const submit = el("button", {type: "submit"})
	const form = el(
		"form",
		{class: "backfill"},
		el("label", {}, "From", el("input", {name: "since", type: "datetime-local", step: 1, required: true})),
		el("label", {}, "to", el("input", {name: "until", type: "datetime-local", step: 1, required: true})),
		el(
			"label",
			{},
			"at",
			el("input", {name: "rate", type: "number", min: 0.001, max: 1e6, step: "any", value: 1, required: true})
		),
		el("span", {}, "a second"),
		submit
	)
	const ask = async more => {
		const {since, until, rate} = Object.fromEntries(new FormData(form))
		const body = {
			since: new Date(since).toISOString(),
			until: new Date(until).toISOString(),
			rate: Number(rate),
			...more
		}
		const answer = await call("POST", `/v1/schedules/${encodeURIComponent(key)}:backfill`, {body})
		return {...answer, rest: answer.next_at ? `; the next is that of ${moment(Date.parse(answer.next_at))}` : ""}
	}
	const act = async () => {
		const {created, rest} = await ask()
		toast(`Set ${plural(created, "run")} of ${key}${rest}`)
	}
	countFirst(form, submit, "Count the runs", async () => {
		const {runs, rest} = await ask({dry_run: true})
		toast(`${plural(runs, "run")} in this range${rest}`)
		return runs && {text: `Run ${plural(runs, "run")} again`, look: "primary", act}
	})
	return el("details", {class: "writes"}, el("summary", {}, "Run the past again"), form)
}
