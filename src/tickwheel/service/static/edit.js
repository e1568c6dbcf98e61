// Change a job in place: its payload and, if it recurs, its rule. Its due time stays, unless the rule determines
// another one.

import {change} from "./acts.js"
import {exact} from "./api.js"
import {el} from "./dom.js"
import {attempt} from "./toasts.js"

const PLAIN = {spellcheck: "false", autocomplete: "off"}
const OVERLAPS = [
	["", "by default"],
	["skip", "left out"],
	["once", "one follows"],
	["all", "all follow"],
	["cancel", "it is asked to stop"]
]
const MATCHES = [
	["", "either matches"],
	["both", "both match"]
]
const GAPS = [
	["", "by default"],
	["end", "a run at the end of the gap"],
	["skip", "left out"]
]
const DOUBLED = [
	["", "by default"],
	["first", "a run the first time"],
	["second", "a run the second time"],
	["both", "a run each time"]
]
const MISFIRES = [
	["once", "one makes up for them"],
	["all", "all are made up for"],
	["skip", "left out"]
]
// How to read a field whose text differs from the value that is sent.
const READ = {
	payload: exact,
	until: text => text.trim() || null,
	max_runs: text => Number(text) || null,
	pause_after: text => Number(text) || null,
	overlap: text => text || null,
	time: text => text.trim() || null,
	day_match: text => text || null,
	dst_gap: text => text || null,
	dst_overlap: text => text || null,
	misfire_grace: text => text.trim() || null,
	exclude: text =>
		text
			.split("\n")
			.map(line => line.trim())
			.filter(Boolean)
}

export function edit(job, onDone) {
	if (job.state !== "pending") return null // a job that is set again during its run would run again
	const text = JSON.stringify(job.payload, null, 2)
	const form = el(
		"form",
		{class: "edit"},
		area("payload", "Payload, as JSON", text, Math.min(12, text.split("\n").length + 1)),
		...ruleFields(job.recurrence),
		el("button", {type: "submit", class: "primary"}, "Save")
	)
	const before = new Map([...form.elements].filter(({name}) => name).map(field => [field, field.value]))
	const {payload} = form.elements
	payload.addEventListener("input", () => payload.setCustomValidity(flaw(payload.value)))
	form.addEventListener("submit", async event => {
		event.preventDefault()
		const changed = [...before.keys()].filter(field => field.value !== before.get(field)) // the others keep phase and instant
		const fields = Object.fromEntries(changed.map(({name, value}) => [name, READ[name] ? READ[name](value) : value]))
		if (!changed.length || (await attempt(() => change(job, fields, onDone)))) onDone()
	})
	return el("details", {class: "writes"}, el("summary", {}, "Edit"), form)
}

function ruleFields(rule) {
	if (!rule) return []
	const isClock = rule.every_ms === undefined
	const when = rule.cron
		? [
				input("cron", "Cron line", rule.cron, {required: true}),
				pick("day_match", "Day and weekday, where it has both", MATCHES, rule.day_match ?? "")
			]
		: [
				input("every", "Every", rule.every ?? `${rule.every_ms / 1000}s`, {required: true}),
				input("time", "At the time of the day", rule.time ?? "", {placeholder: "elapsed time counts"})
			]
	const dst = [
		pick("dst_gap", "Times that the clock skips", GAPS, rule.dst_gap ?? ""),
		pick("dst_overlap", "Times that it shows twice", DOUBLED, rule.dst_overlap ?? "")
	]
	return [
		...when,
		input("tz", isClock ? "in the zone" : "Zone of what is left out", rule.tz ?? "UTC", {required: true}),
		...(isClock ? dst : []),
		input("until", "Until", rule.until ? new Date(rule.until).toISOString() : "", {placeholder: "with no end"}),
		input("max_runs", "Runs in all", rule.max_runs ?? "", {type: "number", min: 1, placeholder: "with no end"}),
		input("pause_after", "Pause after so many failures in a row", rule.pause_after ?? "", {
			type: "number",
			min: 1,
			placeholder: "never"
		}),
		pick("overlap", "Runs due while one lasts", OVERLAPS, rule.overlap ?? ""),
		pick("misfire", "Missed runs", MISFIRES, rule.misfire),
		input(
			"misfire_grace",
			"Missed if later than, where they are left out",
			rule.grace_ms ? `${rule.grace_ms / 1000}s` : "",
			{placeholder: "1m"}
		),
		area("exclude", "But not: a day, a span of days or a cron line on each line", (rule.exclude ?? []).join("\n"), 2)
	]
}

const input = (name, label, value, more) => el("label", {}, label, el("input", {name, value, ...PLAIN, ...more}))
const area = (name, label, value, rows) => el("label", {}, label, el("textarea", {name, rows, ...PLAIN}, value))
const pick = (name, label, choices, value) =>
	el(
		"label",
		{},
		label,
		el(
			"select",
			{name},
			...choices.map(([each, words]) => el("option", {value: each, selected: each === value}, words))
		)
	)

function flaw(text) {
	try {
		exact(text)
		return ""
	} catch (error) {
		return `This is not JSON: ${error.message}`
	}
}
