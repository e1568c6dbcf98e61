// The last two minutes, second by second: how many jobs fired, how many of them failed, and the lateness that one in a
// hundred exceeded.

import {el, svg} from "./dom.js"
import {count, lateness} from "./words.js"

const SECONDS = 120
const HEIGHT = 36

export class Rates {
	constructor(parent) {
		this.samples = []
		this.last = null
		this.fired = chart("Fired a second")
		this.late = chart("Lateness p99")
		parent.append(this.fired.node, this.late.node)
		this.draw()
	}

	// `stats` come about once a second. Their counts are since the start.
	take(stats) {
		const at = Date.parse(stats.now)
		const now = {at, fired: stats.fired, failed: stats.failed, histogram: stats.lateness.histogram}
		const before = this.last
		if (before && at - before.at < 500) return
		this.last = now
		if (!before || now.fired < before.fired) return void (this.samples = []) // the first event, or the first after a restart
		const seconds = (at - before.at) / 1000
		this.samples.push({
			fired: (now.fired - before.fired) / seconds,
			failed: (now.failed - before.failed) / seconds,
			steps: now.histogram.map(([edge, n], i) => [edge, n - before.histogram[i][1]])
		})
		this.samples = this.samples.slice(-SECONDS)
		this.draw()
	}

	draw() {
		const fired = this.samples.map(sample => sample.fired)
		const peak = Math.max(...fired, 0),
			last = fired.at(-1) ?? 0
		const failed = this.samples.map(sample => sample.failed)
		this.fired.show(fired, failed, Math.max(peak, 1), `now ${rate(last)}, peak ${rate(peak)}`)
		const late = this.samples.map(sample => quantile(sample.steps, 0.99))
		const all = this.samples.reduce((sums, {steps}) => steps.map(([edge, n], i) => [edge, n + (sums[i]?.[1] ?? 0)]), [])
		const said = all.some(([, n]) => n)
			? `p50 ≤ ${bound(quantile(all, 0.5))}, p99 ≤ ${bound(quantile(all, 0.99))}`
			: "nothing fired"
		this.late.show(late.map(height), [], height(30_000), said)
	}
}

const rate = n => (n < 10 ? n.toFixed(n % 1 ? 1 : 0) : count(Math.round(n)))
const bound = ms => (ms === Infinity ? "∞" : lateness(ms))
const height = ms => (ms == null ? 0 : Math.log10(1 + Math.min(ms, 60_000) * 10))

// Return the upper edge of the step below which `share` of all values are. Return null if there are no values.
function quantile(steps, share) {
	let rest = steps.reduce((sum, [, n]) => sum + n, 0) * share
	if (!rest) return null
	for (const [edge, n] of steps) if ((rest -= n) <= 0) return edge ?? Infinity
	return Infinity
}

function chart(name) {
	const said = el("span", {class: "said"})
	const bars = svg("path"),
		bad = svg("path", {class: "bad"}) // one path for all bars, because each element costs time in every frame
	const picture = svg(
		"svg",
		{viewBox: `0 0 ${SECONDS * 4 - 1} ${HEIGHT}`, preserveAspectRatio: "none", role: "img"},
		bars,
		bad
	)
	const node = el("div", {class: "rate"}, el("p", {}, el("span", {class: "name"}, name), said), picture)
	const set = (path, values, highest) =>
		path.setAttribute(
			"d",
			values
				.map((value, i) => {
					const tall = value > 0 ? Math.max(1.5, (HEIGHT * value) / highest) : 0
					return tall && `M${4 * (SECONDS - values.length + i)} ${HEIGHT}v${-tall}h3v${tall}z`
				})
				.filter(Boolean)
				.join("")
		)
	return {
		node,
		show(values, failed, highest, text) {
			said.textContent = text
			picture.setAttribute("aria-label", `${name} in the last two minutes: ${text}`)
			set(bars, values, highest)
			set(bad, failed, highest)
		}
	}
}
