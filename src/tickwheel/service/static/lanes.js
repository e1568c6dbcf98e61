// The lanes of all nodes: handlers, queues and receivers. Each has its load, its state, and the reason why it waits.

import {call} from "./api.js"
import {button, byId, el, sync} from "./dom.js"
import {attempt, toast} from "./toasts.js"
import {count, lateness, length, moment, now_ms, plural, printable, span} from "./words.js"

let stuck = new Map() // by lane: the reason why no node takes its jobs, and how many wait

// The reason why no node takes a job, if it is known.
export const stuckOf = ({target, handler, state}) => state === "pending" && stuck.get(`${target}:${handler}`)

export async function readLanes() {
	const found = await call("GET", "/v1/lanes")
	stuck = new Map(found.lanes.filter(each => each.is_stuck).map(({lane, text, waiting}) => [lane, {text, waiting}]))
	return found
}

export async function showLanes() {
	const {lanes, span_s} = await readLanes()
	const {tBodies, tHead} = byId("lane-table")
	const names = [...tHead.rows[0].cells].map(cell => cell.textContent)
	byId("lanes-lead").textContent = `Of all processes; firings are those of the last ${length(1000 * span_s)}.`
	sync(
		tBodies[0],
		lanes,
		({lane}) => lane,
		({lane}) =>
			el(
				"tr",
				{},
				el("th", {scope: "row"}, printable(lane.replace(":", " "))),
				...names.slice(1).map(name => el("td", {"data-name": name}))
			),
		(row, lane) => update(row, lane, span_s)
	)
	const scopes = ["*", ...new Set(lanes.flatMap(({lane, scope}) => (scope ? [scope, lane.split(":")[0]] : [])))]
	sync(byId("pause-scope").querySelector("select"), scopes.sort(), String, value =>
		el("option", {value}, value === "*" ? "Everything" : printable(value))
	)
}

// An unknown value is shown as a dash, not as zero.
const known = (value, say) => (value == null ? "–" : say(value))

function update(row, lane, span_s) {
	const {waiting, is_full, running, limit, oldest_due_at, fired, failed, p50_ms, p99_ms, workers, nodes} = lane
	row.className = lane.is_stuck || lane.receiver?.state === "open" ? "stuck" : lane.pause ? "paused" : ""
	const said = [
		count(waiting) + (is_full ? " and more" : ""),
		count(running) + (limit ? ` of ${count(limit)}` : ""),
		known(fired, n => `${rate(n / span_s)}`),
		known(failed, count),
		p50_ms == null ? "–" : `${lateness(p50_ms)} / ${lateness(p99_ms)}`,
		waiting && oldest_due_at ? `${span(Math.max(0, now_ms() - Date.parse(oldest_due_at)))} ago` : "–",
		workers ?? known(nodes, n => plural(n, "node")),
		state(lane)
	]
	const cells = [...row.cells].slice(1)
	said.forEach((text, i) => cells[i].textContent !== String(text) && (cells[i].textContent = text))
	act(cells.at(-1), lane)
}

const rate = a_second =>
	a_second >= 1 || !a_second ? `${count(Math.round(a_second))} / s` : `${(60 * a_second).toFixed(1)} / min`

function state({pause, is_drained, running, text, receiver}) {
	const parts = [
		pause &&
			`${is_drained ? "drained" : `draining, ${running} run`}: paused ${moment(Date.parse(pause.at))} by ${pause.by}`,
		pause?.note,
		!pause && text,
		receiver && receiver.state !== "closed" && `receiver ${receiver.state}: ${receiver.reason}`
	]
	return printable(parts.filter(Boolean).join("; ") || "well")
}

// Show the button that pauses or resumes a lane. It keeps the focus while its verb is the same.
function act(cell, {scope, pause}) {
	const verb = !scope || (pause && pause.scope !== scope) ? "" : pause ? "Resume" : "Pause"
	if (cell.dataset.verb === verb) return
	cell.dataset.verb = verb
	const resume = async () => {
		await call("POST", "/v1/scopes:resume", {body: {scope}})
		toast(`Resumed ${scope}`)
		await showLanes()
	}
	cell.replaceChildren(
		verb &&
			button(verb, "writes", verb === "Pause" ? () => choose(scope) : () => attempt(resume), {
				"aria-label": `${verb} ${scope}`
			})
	)
}

function choose(scope) {
	const form = byId("pause-scope")
	form.open = true
	form.querySelector("select").value = scope
	form.querySelector("[name=note]").focus()
}
