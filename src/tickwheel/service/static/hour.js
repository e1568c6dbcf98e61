// The last hour of all nodes, from the minutes in the store: the lateness by node and handler, and the speed of the
// store.

import {call} from "./api.js"
import {el} from "./dom.js"
import {clockTime, count, lateness, printable, zone} from "./words.js"

const MIN_MS = 60_000
const STEP_MIN = 5
// A minute is slow if its mean commit takes at least SLOW_MS. It is also slow at SLOW_LEAST_MS, if that is SLOW_TIMES
// the median.
const SLOW_MS = 100,
	SLOW_LEAST_MS = 20,
	SLOW_TIMES = 5
const LATE = ["Fired", "Failed", "Dead", "Late, p50", "p99", "most"]
const COMMITS = ["Commits", "mean", "most"]

export async function showHour(parent) {
	const {minutes, edges_ms} = await call("GET", "/v1/minutes")
	if (!minutes.length) return void parent.replaceChildren(el("p", {}, "Nothing fired in the last hour."))
	const nodes = grouped(minutes, ({node}) => node)
	const lanes = grouped(
		minutes.flatMap(each => each.lanes),
		({lane}) => lane
	)
	const steps = grouped(minutes, ({at}) => Math.floor(Date.parse(at) / MIN_MS / STEP_MIN) * STEP_MIN * MIN_MS)
	const late = rows => figures(rows, edges_ms)
	const worst = groups => latest([...groups].map(([name, rows]) => [name, sum(rows.map(total))]))
	const [most, node, lane] = [sum(minutes.map(total)), worst(nodes), worst(lanes)]
	const where =
		most.late_max_ms > 0 ? ` The latest was on ${printable(node)}, of ${printable(lane.replace(":", " "))}.` : ""
	const [p50, p99] = [0.5, 0.99].map(share => lateness(quantile(most, edges_ms, share)))
	parent.replaceChildren(
		el(
			"p",
			{class: "hour-late"},
			`Late: half within ${p50}, 99 of 100 within ${p99}, most ${lateness(most.late_max_ms)}.${where}`
		),
		el("p", {class: "hour-store"}, store(minutes)),
		table("Node", LATE.concat(COMMITS), nodes, rows => [...late(rows), ...commits(rows)]),
		table("Lane", LATE, lanes, late),
		table(
			`From, in ${zone}`,
			LATE.concat(COMMITS),
			steps,
			rows => [...late(rows), ...commits(rows)],
			at => clockTime(at).slice(0, 5)
		)
	)
}

const total = row => row.total ?? row

const latest = sums => sums.reduce((a, b) => (b[1].late_max_ms > a[1].late_max_ms ? b : a))[0]

function grouped(rows, of) {
	const groups = new Map()
	for (const row of rows) {
		const key = of(row)
		if (!groups.has(key)) groups.set(key, [])
		groups.get(key).push(row)
	}
	return groups
}

function sum(rows) {
	const all = {fired: 0, failed: 0, dead: 0, late_max_ms: 0, lateness: []}
	for (const row of rows) {
		for (const name of ["fired", "failed", "dead"]) all[name] += row[name]
		all.late_max_ms = Math.max(all.late_max_ms, row.late_max_ms)
		row.lateness.forEach((n, i) => (all.lateness[i] = (all.lateness[i] ?? 0) + n))
	}
	return all
}

// Return the upper edge of the bucket in which this share of the starts ends. Return null if nothing started.
function quantile({lateness: buckets, late_max_ms}, edges, share) {
	let rest = share * buckets.reduce((a, b) => a + b, 0)
	for (const [i, n] of buckets.entries()) if (n && (rest -= n) <= 0) return Math.min(edges[i] ?? Infinity, late_max_ms)
	return null
}

function figures(rows, edges) {
	const all = sum(rows.map(total)),
		has = all.lateness.some(Boolean)
	const late = [quantile(all, edges, 0.5), quantile(all, edges, 0.99), has ? all.late_max_ms : null]
	return [...[all.fired, all.failed, all.dead].map(n => count(n)), ...late.map(lateness)]
}

function commits(rows) {
	const {number, mean, most} = written(rows)
	return [count(number), lateness(mean), lateness(most)]
}

function written(rows) {
	const add = name => rows.reduce((all, row) => all + row[name], 0)
	const number = add("commits")
	return {
		number,
		mean: number ? add("commit_ms") / number : null,
		most: number ? Math.max(...rows.map(row => row.commit_max_ms)) : null
	}
}

// Return a sentence that says whether the store is slow, and since when. It uses the mean commit of each minute.
function store(minutes) {
	const means = [...grouped(minutes, ({at}) => Date.parse(at))]
		.map(([at, rows]) => ({at, mean: written(rows).mean}))
		.filter(({mean}) => mean !== null)
		.sort((a, b) => a.at - b.at)
	if (!means.length) return "The store: nothing was written in this hour."
	const sorted = means.map(({mean}) => mean).sort((a, b) => a - b)
	const usual = sorted[Math.floor((sorted.length - 1) / 2)]
	const bar = Math.max(SLOW_LEAST_MS, Math.min(SLOW_MS, SLOW_TIMES * usual))
	const last = means.findLastIndex(({mean}) => mean < bar)
	const now = lateness(means.at(-1).mean)
	if (last < means.length - 1)
		return `The store is slow since ${clockTime(means[last + 1].at)} ${zone}: a commit takes ${now}, usually ${lateness(usual)}.`
	const slow = means.filter(({mean}) => mean >= bar)
	const before = slow.length ? `; it was slow for ${slow.length} min, last at ${clockTime(slow.at(-1).at)} ${zone}` : ""
	return `The store is not slow: a commit takes ${now}, usually ${lateness(usual)}${before}.`
}

function table(title, names, groups, cells, name = key => printable(String(key))) {
	const head = el("tr", {}, ...[title, ...names].map(text => el("th", {scope: "col"}, text)))
	const rows = [...groups].map(([key, rows]) =>
		el("tr", {}, el("th", {scope: "row"}, name(key)), ...cells(rows).map(text => el("td", {}, text)))
	)
	const body = el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))
	return el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": title}, body)
}
