// The row of figures of the store, and of this process since its start. Also the distribution of the lateness of
// firings.

import {el, svg, sync} from "./dom.js"
import {count, lateness} from "./words.js"

const late = ({lateness: figures}, name) => lateness(figures.count ? figures[name] : null)

// The figures, by the processes that they count and by their period.
const GROUPS = [
	[
		"Of all processes, now",
		[
			["pending", "Pending", s => count(s.pending)],
			["running", "Running", s => count(s.running)],
			["dead", "Dead", s => count(s.dead)]
		]
	],
	[
		"Of this process, since its start",
		[
			["fired", "Fired", s => count(s.fired)],
			["failed", "Failed", s => count(s.failed)],
			["p50", "Late, p50", s => late(s, "p50_ms")],
			["p99", "Late, p99", s => late(s, "p99_ms")],
			["max", "Late, most", s => late(s, "max_ms")]
		]
	]
]

const STATES = ["pending", "running", "dead"] // these figures link to the jobs that they count

export function showFigures(parent, stats, onState) {
	sync(
		parent,
		GROUPS,
		([title]) => title,
		([title]) => el("div", {class: "group"}, el("h3", {}, title), el("div")),
		(node, [, figures]) =>
			sync(
				node.lastElementChild,
				figures,
				([key]) => key,
				figure => make(figure, onState),
				(each, figure) => update(each, figure, stats)
			)
	)
}

function make([key, name], onState) {
	const attributes = STATES.includes(key)
		? {type: "button", onclick: () => onState(key), title: `List ${name.toLowerCase()} jobs`}
		: {}
	return el(attributes.type ?? "div", {class: "figure", ...attributes}, el("b"), el("span", {}, name))
}

function update(node, [key, , say], stats) {
	node.firstElementChild.textContent = say(stats)
	node.classList.toggle("alarm", key === "dead" && stats.dead > 0)
}

// `histogram` is a list of [upper bound in ms or null, count] since the start of the service.
export function showLateness(parent, {histogram, p50_ms, p99_ms}) {
	const total = histogram.reduce((sum, [, n]) => sum + n, 0)
	parent.hidden = total === 0
	if (!total) return
	const highest = Math.max(...histogram.map(([, n]) => n))
	const bars = histogram.map(([bound, n], i) => {
		const height = n ? Math.max(1.5, (36 * n) / highest) : 0
		const label = `${bound == null ? "later" : `up to ${lateness(bound)}`}: ${count(n)}`
		return svg("rect", {x: i * 10, y: 40 - height, width: 8, height, rx: 1}, svg("title", {}, label))
	})
	const label = `Lateness of ${count(total)} firings: half within ${lateness(p50_ms)}, 99 of 100 within ${lateness(p99_ms)}.`
	const chart = svg(
		"svg",
		{viewBox: `0 0 ${histogram.length * 10 - 2} 40`, preserveAspectRatio: "none", role: "img", "aria-label": label},
		...bars
	)
	const low = histogram[0][0],
		high = histogram.at(-2)?.[0]
	parent.replaceChildren(
		chart,
		el(
			"p",
			{"aria-hidden": "true"},
			el("span", {}, `under ${lateness(low)}`),
			el("span", {}, "lateness, since its start"),
			el("span", {}, `over ${lateness(high)}`)
		)
	)
}
