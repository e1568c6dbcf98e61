// The fleet: a lane for each process that fires, with its shards, the end of its leases, its lateness and its load.

import {call} from "./api.js"
import {byId, el, facts, sync} from "./dom.js"
import {showHour} from "./hour.js"
import {showProcess} from "./process.js"
import {attempt} from "./toasts.js"
import {count, fromTo, lateness, moment, plural, printable, span} from "./words.js"

const TAKEN_MS = 30_000 // time for which a shard that has changed hands is marked
const EVENTS_MAX = 6

// Between two answers the leases count down here, by the store's clock in the last answer.
let offset_ms = 0,
	fleet = null
const owners = new Map(),
	taken = new Map(),
	events = []
const now_ms = () => Date.now() + offset_ms

export async function showFleet(stats) {
	if (stats) showProcess(stats)
	fleet = await call("GET", "/v1/fleet")
	offset_ms = Date.parse(fleet.now) - Date.now()
	noteTakeovers(fleet)
	const {nodes, shards, owner} = fleet
	byId("fleet-lead").textContent = lead(nodes, shards, owner)
	sync(byId("lanes"), nodes, node => node.owner, lane, update)
	const free = shards.filter(each => !each.owner)
	byId("free").hidden = !free.length
	byId("free").textContent = `Nobody fires ${plural(free.length, "shard")}: ${free.map(each => each.shard).join(", ")}.`
	byId("takeovers").replaceChildren(...events.map(({at, text}) => el("li", {}, `${moment(at)} ${text}`)))
	tick()
}

// Update the ends of leases and the silences of nodes between two answers.
export function tick() {
	for (const node of fleet?.nodes ?? []) {
		const parent = [...byId("lanes").children].find(each => each.dataset.key === node.owner)
		if (!parent) continue
		const {until, heard_at} = node,
			left = until && Date.parse(until) - now_ms()
		const bar = parent.querySelector("progress")
		bar.hidden = !until
		if (until) {
			bar.max = Math.max(1, Date.parse(until) - Date.parse(heard_at ?? fleet.now))
			bar.value = Math.max(0, left)
		}
		parent.querySelector(".lease").textContent = !until
			? "held by a lock of the system"
			: left > 0
				? `leases end in ${(left / 1000).toFixed(1)} s`
				: `leases ended ${span(-left)} ago`
		parent.querySelector(".state").textContent = said(node, heard_at && now_ms() - Date.parse(heard_at))
	}
}

function said({state, is_this}, silent_ms) {
	const here = is_this ? "this process, " : ""
	if (state === "gone") return `${here}gone`
	if (state === "silent") return `${here}silent for ${span(silent_ms)}`
	return `${here}well`
}

function lead(nodes, shards, owner) {
	const number = (...states) => nodes.filter(each => states.includes(each.state)).length
	const silent = number("silent"),
		said = silent ? `, ${silent} of them silent,` : ""
	const here = owner ? "" : " The process that shows this page fires nothing."
	return `Of all processes: ${plural(number("well", "silent"), "node")}${said} on ${plural(shards.length, "shard")}.${here}`
}

function lane({owner}) {
	return el(
		"li",
		{class: "lane"},
		el("p", {class: "who"}, el("b", {title: owner}, owner), el("span", {class: "state"})),
		el("p", {class: "left"}, el("progress", {"aria-label": `Leases of ${owner}`}), el("span", {class: "lease"})),
		el("ul", {class: "cells", "aria-label": `Shards of ${owner}`}),
		el("dl", {class: "load"})
	)
}

function update(node, {state, is_this, shards, tails, figures}) {
	node.className = `lane ${state}${is_this ? " this" : ""}`
	sync(
		node.querySelector(".cells"),
		shards,
		String,
		shard => el("li", {}, String(shard)),
		(cell, shard) => {
			const of = fleet.shards.find(each => each.shard === shard)
			const since = taken.get(shard)
			cell.className = since && Date.now() - since.at < TAKEN_MS ? "taken" : ""
			cell.title = `shard ${shard}, epoch ${of.epoch}${since ? `, taken over from ${since.from}` : ""}`
		}
	)
	facts(node.querySelector(".load"), load(figures, tails))
}

function load(figures, tails) {
	if (!figures) return [["Figures", "none reported"]]
	const {lately, in_flight, waiting, places, staged, fired, failed, version, started_at} = figures
	const of = `last ${Math.round(lately.span_s)} s`
	const late = lately.count
		? `p50 ${lateness(lately.p50_ms)}, p99 ${lateness(lately.p99_ms)}, at most ${lateness(lately.max_ms)}`
		: "nothing fired"
	return [
		[`Fired, ${of}`, `${count(lately.fired)}, ${(lately.fired / Math.max(1, lately.span_s)).toFixed(1)} a second`],
		[`Late, ${of}`, late],
		[
			"Load",
			`${count(in_flight)} running on ${plural(places, "thread")}, ${count(waiting)} waiting, ${count(staged)} staged`
		],
		["Handed over", tails.length && `${plural(tails.length, "shard")}, of which jobs still run here`],
		[
			"Since its start",
			`${count(fired)} fired, ${count(failed)} failed; ${moment(Date.parse(started_at))}, version ${version}`
		]
	]
}

// A shard has changed hands since the last answer. If its former owner is well, it was handed over. Otherwise it was
// taken over.
function noteTakeovers({shards, nodes}) {
	const isWell = new Set(nodes.filter(each => each.state === "well").map(each => each.owner))
	for (const {shard, owner} of shards) {
		const before = owners.get(shard)
		if (!owner) continue
		if (before && before !== owner) {
			taken.set(shard, {at: Date.now(), from: before})
			const last = events[0]
			if (last?.owner === owner && last.from === before && Date.now() - last.noted < 2000) last.shards.push(shard)
			else events.unshift({at: now_ms(), noted: Date.now(), owner, from: before, shards: [shard]})
			events.length = Math.min(events.length, EVENTS_MAX)
			const what = plural(events[0].shards.length, "shard")
			events[0].text = isWell.has(before)
				? `${before} handed over ${what} to ${owner}`
				: `${owner} took over ${what} from ${before}`
		}
		owners.set(shard, owner)
	}
}

// The log of acts of all callers and nodes.
byId("log").addEventListener("toggle", () => byId("log").open && attempt(showLog))
byId("hour").addEventListener(
	"toggle",
	() => byId("hour").open && attempt(() => showHour(byId("hour").lastElementChild))
)

async function showLog() {
	const {acts: log} = await call("GET", "/v1/acts")
	const row = ({at, outcome, key, by, note, error, was_due_at, due_at}) => {
		const facts = [was_due_at && fromTo(was_due_at, due_at), by && `by ${by}`, note, error]
		const text = `${outcome.replace("_", " ")} ${outcome === "bulk" ? "act" : key} ${facts.filter(Boolean).join("; ")}`
		return el("li", {}, `${moment(Date.parse(at))} ${printable(text)}`)
	}
	byId("log").lastElementChild.replaceChildren(...log.map(row))
}
