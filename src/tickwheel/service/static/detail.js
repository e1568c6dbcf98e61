// One job: its fields, its history, and the acts on it.

import {cancel, move, pause, replay, resume, run, skip, stop} from "./acts.js"
import {call, jobPath} from "./api.js"
import {backfill} from "./backfill.js"
import {button, byId, el, sure} from "./dom.js"
import {edit} from "./edit.js"
import {past} from "./history.js"
import {isBounded} from "./reach.js"
import {attempt} from "./toasts.js"
import {traceLink} from "./traces.js"
import {length, moment, momentIn, percent, printable, recurrence, until, where, zone} from "./words.js"

const dialog = byId("detail")
const UNITS = {s: 1, min: 60, h: 3600, d: 86_400}

let asked = 0

export async function openJob(key, onChange) {
	const mine = ++asked
	const {firings} = await call("GET", `/v1/firings?${new URLSearchParams({key})}`).catch(() => ({firings: []}))
	const {records} = await call("GET", jobPath(key, ":history")).catch(() => ({records: []}))
	const job = await call("GET", jobPath(key)).catch(problem => {
		if (problem.status !== 404) throw problem
		return null
	})
	const runs = job?.recurrence
		? await call("GET", `/v1/schedules/${encodeURIComponent(key)}?count=5`).then(
				schedule => schedule.runs,
				() => []
			)
		: []
	const progress = job && (await progressOf(job, firings))
	const why =
		job?.state === "pending" || job?.awaits_worker
			? await call("GET", jobPath(key, ":explain")).catch(() => null)
			: null
	if (mine !== asked) return // another job was requested in the meantime
	const parts = job
		? [
				facts(job, runs, progress, why),
				payload(job),
				edit(job, () => (close(), onChange())),
				past(key, records, firings, job),
				backfill(job),
				actions(job, onChange)
			]
		: [gone(), past(key, records, firings)]
	dialog.dataset.key = key
	dialog.replaceChildren(head(key), ...parts.filter(Boolean), ...dialog.querySelectorAll("#toasts")) // notes stay
	if (!dialog.open) dialog.showModal()
}

export function closeJob() {
	asked++ // the requested job is no longer shown
	dialog.close()
}

// `work` gets the key of a job that was closed, unless another job was opened in its place.
export const onJobClosed = work => dialog.addEventListener("close", () => dialog.open || work(dialog.dataset.key))

const close = () => dialog.close()
dialog.addEventListener("click", event => event.target === dialog && close()) // the backdrop
dialog.addEventListener("close", () => dialog.open || dialog.replaceChildren()) // this event comes late, so another job may be open
setInterval(() => {
	const left = dialog.querySelector("[data-due]")
	if (left) left.textContent = until(Number(left.dataset.due))
}, 100)

const head = key =>
	el(
		"header",
		{},
		el("h2", {id: "detail-title"}, printable(key)),
		el("button", {type: "button", class: "quiet", "aria-label": "Close", onclick: close}, "✕")
	)

const gone = () => el("p", {class: "empty"}, "This job is no longer there: it has run, or was cancelled.")

// The progress of a job on another node, from that node's last report.
async function progressOf(job, firings) {
	const mine = each => each.key === job.key && each.generation === job.generation && each.attempt === job.attempt
	const here = firings.find(each => each.outcome === "running" && mine(each))
	if (here || job.state !== "running" || isBounded()) return here?.progress
	const {nodes} = await call("GET", "/v1/fleet").catch(() => ({nodes: []}))
	return nodes.flatMap(node => node.figures?.progress ?? []).find(mine)
}

function paused({scope, at, by, note}) {
	return `${scope ? `${scope}, ` : ""}since ${moment(Date.parse(at))}, by ${by}${note ? `: ${note}` : ""}`
}

function far(progress) {
	if (!progress) return el("span", {class: "far"}, "nothing noted")
	const {fraction, note} = progress
	return el(
		"span",
		{class: "far"},
		el("progress", {value: fraction, "aria-label": "Progress"}),
		` ${percent(progress)}${note ? `: ${printable(note)}` : ""}`
	)
}

// Take the job's events from the stream.
export function takeProgress({firings}) {
	const shown = dialog.open && dialog.querySelector(".far")
	const latest =
		shown && firings.findLast(each => each.key === dialog.dataset.key && each.outcome === "running" && each.progress)
	if (latest) shown.replaceWith(far(latest.progress))
}

const SAID = ["not_due", "paused", "running"] // other rows say this

function facts(job, runs, progress, why) {
	const due = Date.parse(job.due_at)
	const rows = [
		[
			"State",
			job.pause && job.state === "pending"
				? "paused"
				: job.lacks_handler
					? "pending: it waits for a node that has its handler"
					: job.awaits_worker
						? "waiting for a worker"
						: job.state
		],
		["Paused", job.pause && paused(job.pause)],
		[
			"Due",
			el(
				"span",
				{},
				moment(due),
				job.state === "pending" ? el("span", {class: "left", "data-due": due}, until(due)) : null
			)
		],
		["Waits", why && !SAID.includes(why.reason) && printable(`${why.text}. Remedy: ${why.remedy}.`)],
		["Repeats", job.recurrence && recurrence(job.recurrence)],
		[
			"Next runs",
			runs.length > 1 &&
				runs
					.slice(1)
					.map(run => moment(Date.parse(run)))
					.join(" · ")
		],
		["Its zone", theirs(job, runs)],
		["Progress", job.state === "running" && far(progress)],
		["Goes to", where(job)],
		["Attempts", job.attempt ? `${job.attempt} of ${job.retry.attempts}` : `none yet, at most ${job.retry.attempts}`],
		["Next tries", nextTries(job)],
		[
			"Expires",
			job.expires_at &&
				(wasStopped(job) ? "it was asked to stop: there is no other attempt" : moment(Date.parse(job.expires_at)))
		],
		["Error", job.error],
		["Raised in", job.raised_in],
		["Generation", String(job.generation)],
		["Set", moment(Date.parse(job.first_set_at))],
		["Trace", job.trace && traceLink(job.trace)],
		["Times", `in ${zone}${theirs(job, runs) ? ", but those of its zone" : ""}`]
	]
	return el(
		"dl",
		{},
		...rows
			.filter(([, value]) => value)
			.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {class: name.toLowerCase().replace(" ", "-")}, value)])
	)
}

// Show the instants of a rule in a zone other than the reader's.
function theirs({due_at, recurrence: rule}, runs) {
	if (!rule?.tz || rule.tz === zone) return null
	const shown = runs.length ? runs : [due_at]
	return `${rule.tz}: ${shown.map(run => momentIn(Date.parse(run), rule.tz)).join(" · ")}`
}

const wasStopped = ({expires_at}) => Date.parse(expires_at) === 0

function nextTries(job) {
	const {state, attempt: begun, retry} = job
	if (state === "dead" || begun >= retry.attempts - 1 || wasStopped(job)) return null
	const waits = []
	for (let n = begun; n < Math.min(begun + 4, retry.attempts - 1); n++) waits.push(length(1000 * waitAfter(n, retry)))
	return `if it fails, after ${waits.join(", then ")}${retry.jitter ? `, or up to ${Math.round(retry.jitter * 100)} % sooner` : ""}`
}

function waitAfter(n, {kind, base_s, max_s, waits_s}) {
	if (kind === "list") return waits_s.length ? waits_s[Math.min(n, waits_s.length - 1)] : 0
	return Math.min(max_s, kind === "linear" ? base_s * (n + 1) : base_s * 2 ** n)
}

const payload = job =>
	el(
		"details",
		{open: job.payload !== null},
		el("summary", {}, "Payload"),
		el("pre", {tabindex: 0}, JSON.stringify(job.payload, null, 2))
	)

function actions(job, onChange) {
	const act = work => async () => (await attempt(work)) && (close(), onChange())
	const submit = work => event => {
		event.preventDefault()
		act(() => work(Object.fromEntries(new FormData(event.target))))()
	}
	if (job.state === "dead") {
		return el(
			"div",
			{class: "actions writes"},
			sure(
				"Remove",
				"Really remove?",
				act(() => cancel(job, onChange))
			),
			button(
				"Replay",
				"primary",
				act(() => replay(job))
			)
		)
	}
	const pausing =
		job.pause && !job.pause.scope
			? button(
					"Resume",
					"primary",
					act(() => resume(job))
				)
			: pauseForm(submit(({note}) => pause(job, note, onChange)))
	const halt = sure(
		"Stop",
		"Really stop?",
		act(() => stop(job)),
		"danger"
	)
	if (job.state === "running" && job.recurrence) return el("div", {class: "actions writes"}, pausing, halt)
	if (job.state === "running")
		return el(
			"div",
			{class: "actions writes"},
			el("p", {class: "empty"}, "It is running: it can be stopped, not moved."),
			halt
		)
	return el(
		"div",
		{class: "actions writes"},
		moveForm(submit(({amount, unit}) => move(job, Number(amount) * UNITS[unit], onChange))),
		pausing,
		job.recurrence
			? button(
					"Skip next run",
					"",
					act(() => skip(job, onChange))
				)
			: null,
		sure(
			"Cancel job",
			"Really cancel?",
			act(() => cancel(job, onChange))
		),
		sure(
			"Run now",
			"Really run now?",
			act(() => run(job)),
			"primary"
		)
	)
}

const pauseForm = onsubmit =>
	el(
		"form",
		{class: "pause", onsubmit},
		el("input", {name: "note", maxlength: 250, placeholder: "Why?", "aria-label": "Why it is paused"}),
		el("button", {type: "submit"}, "Pause")
	)

const moveForm = onsubmit =>
	el(
		"form",
		{class: "move", onsubmit},
		el(
			"label",
			{},
			"Move to",
			el("input", {
				name: "amount",
				type: "number",
				min: 0,
				step: "any",
				value: 60,
				required: true,
				"aria-label": "How long from now"
			})
		),
		el("select", {name: "unit", "aria-label": "Unit"}, ...Object.keys(UNITS).map(unit => el("option", {}, unit))),
		el("span", {}, "from now"),
		el("button", {type: "submit"}, "Move")
	)
