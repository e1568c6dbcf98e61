// The wheel of the coming minute: sixty slots, and a hand at the present time. A slot behind the hand is due in the
// next turn.

import {svg, wedge} from "./dom.js"
import {paint} from "./strips.js"
import {count, now_ms, span} from "./words.js"

const SLOTS = 60
const GAP = 0.08 // gap on each side of a slot, as a share of its width
const RIPPLES = 3 // at once
const STEP = 0.5 // degrees: less than a pixel, so a hand that has not moved is not painted
const CALM = matchMedia("(prefers-reduced-motion: reduce)")

export class Dial {
	constructor(parent) {
		this.slots = Array.from({length: SLOTS}, (_, i) => svg("path", {d: wedge(i, SLOTS, GAP, 84, 108), class: "h0"}))
		this.hand = svg(
			"g",
			{class: "hand"},
			svg("line", {x1: 0, y1: -62, x2: 0, y2: -114}),
			svg("circle", {cx: 0, cy: -76, r: 3.5})
		)
		this.pulses = svg("g")
		this.big = svg("text", {class: "big", y: 4})
		this.small = svg("text", {class: "small", y: 26})
		const marks = Array.from({length: 12}, (_, i) =>
			svg("line", {class: "mark", x1: 0, y1: -76, x2: 0, y2: -80, transform: `rotate(${i * 30})`})
		)
		this.chart = svg(
			"svg",
			{viewBox: "-120 -120 240 240", role: "img"},
			...marks,
			...this.slots,
			this.pulses,
			this.hand,
			this.big,
			this.small
		)
		parent.append(this.chart)
		this.next_ms = null
		this.turn()
	}

	// `strip` is the forecast of the next minute, second by second.
	show({since, counts}, next_ms, pending) {
		const first = Math.floor(Date.parse(since) / 1000)
		counts.forEach((n, i) => paint(this.slots[(first + i) % SLOTS], n))
		this.next_ms = next_ms
		const total = counts.reduce((sum, n) => sum + n, 0)
		this.chart.setAttribute(
			"aria-label",
			`The wheel of the next minute: ${count(total)} of ${count(pending)} pending jobs are due in it.`
		)
	}

	// Draw a ripple at the hand for firings.
	pulse() {
		if (CALM.matches || this.pulses.childElementCount >= RIPPLES) return
		const ring = svg("circle", {class: "pulse", r: 4, transform: `rotate(${angle()}) translate(0 -96)`})
		ring.addEventListener("animationend", () => ring.remove())
		this.pulses.append(ring)
	}

	turn() {
		const step = CALM.matches ? 6 : STEP,
			at = Math.floor(angle() / step) * step
		if (at !== this.at) this.hand.setAttribute("transform", `rotate(${at})`)
		this.at = at
		const left = this.next_ms == null ? null : this.next_ms - now_ms()
		write(this.big, left == null ? "–" : left > 0 ? span(left) : "now")
		write(this.small, left == null ? "nothing pending" : left > 0 ? "to the next" : "the next is due")
		requestAnimationFrame(() => this.turn())
	}
}

const write = (node, text) => node.textContent === text || (node.textContent = text)

const angle = () => ((now_ms() / 1000) % SLOTS) * 6
