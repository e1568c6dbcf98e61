// One wheel for everything that is pending. Inside are the rings of the near wheel. Outside, with the same slots, is
// the content of the store. There is a ring for each level in use. A slot is as dark as it is full, and each ring has
// its hand.

import {viewAddress} from "./address.js"
import {call} from "./api.js"
import {byId, el, facts, svg, wedge} from "./dom.js"
import {paint} from "./strips.js"
import {count, moment, now_ms, plural} from "./words.js"

const SLOTS = 64
const OUTER = 116,
	INNER = 26
const GAP = 0.06 // gap on each side of a slot, as a share of its width
const CALM = matchMedia("(prefers-reduced-motion: reduce)")
const FASTEST_MS = 1000 // a faster hand would be a blur, and is not drawn
const LEAST_NS = 1e6,
	FAR_NS = 1e10,
	MOST_NS = 1e18 // limits of the drawn levels; from the second limit on, the store has the counts
const FAR_MS = 5000 // minimum interval of requests to the store
const SHARE = 20 // maximum share of the time that they may take, as a divisor, because all pending jobs are counted

export class Near {
	constructor() {
		this.rings = []
		this.far = new Map()
		this.ask_at = 0
		this.chart = svg("svg", {viewBox: "-120 -120 240 240", role: "img"})
		this.chart.addEventListener("pointermove", ({target}) => this.point(target.dataset))
		this.chart.addEventListener("pointerleave", () => this.point({}))
		this.chart.addEventListener(
			"click",
			({target}) => target.dataset.slot && (location.hash = this.address(target.dataset))
		)
		byId("rings").prepend(this.chart)
	}

	async refresh() {
		const begun = performance.now()
		const wheel = await call("GET", "/v1/wheel")
		this.read_at = (begun + performance.now()) / 2
		for (const level of wheel.levels) level.since = now_ms() - level.into_ns / 1e6
		if (performance.now() >= this.ask_at) {
			const asked = performance.now()
			this.ask_at = Infinity
			// Without an answer the last figures stay. The near rings do not need the store.
			await Promise.all(wheel.levels.filter(isFar).map(level => this.askStore(level).catch(() => null)))
			this.ask_at = asked + Math.max(FAR_MS, SHARE * (performance.now() - asked))
		}
		this.show(wheel)
	}

	// Count the due jobs of each slot until the turn is over. The inner rings show the slot under the hand. The outer
	// rings show later turns.
	async askStore({level, slot_ns, hand, since}) {
		const query = new URLSearchParams({since: since / 1000, step: slot_ns / 1e9, steps: SLOTS - hand})
		const {counts} = await call("GET", `/v1/due?${query}`)
		this.far.set(level, Object.fromEntries(counts.map((n, i) => [hand + i, i && n]).filter(([, n]) => n)))
	}

	show({levels, timers, cascades, wakeups, bytes, slot_max}) {
		const shown = levels.filter(level => level.slot_ns > LEAST_NS && level.slot_ns < MOST_NS)
		for (const level of shown) if (isFar(level)) level.counts = this.far.get(level.level) ?? {}
		const names = shown.map(({level}) => level).join()
		if (names !== this.names) this.build(shown, names)
		shown.forEach((level, i) => this.rings[i].fill(level))
		const inStore = sum(shown.filter(isFar))
		this.chart.setAttribute(
			"aria-label",
			`The wheel: ${count(timers)} timers in memory, and in the store ${plural(inStore, "job")} that are further away.`
		)
		byId("levels").tBodies[0].replaceChildren(
			...shown.map(level => {
				const [fullest, most] = Object.entries(level.counts).reduce((a, b) => (b[1] > a[1] ? b : a), [0, 0])
				const link = most ? el("a", {href: this.address({level: level.level, slot: fullest})}, count(most)) : "–"
				const cells = [
					isFar(level) ? "the store" : "memory",
					ns(level.slot_ns),
					ns(level.slot_ns * SLOTS),
					count(sum([level])),
					link
				]
				return el("tr", {}, el("th", {scope: "row"}, String(level.level)), ...cells.map(cell => el("td", {}, cell)))
			})
		)
		this.turn()
		facts(byId("wheel-facts"), [
			["Timers in memory", count(timers)],
			["Fullest slot", count(slot_max)],
			["Cascaded", count(cascades)],
			["Woken up", count(wakeups)],
			["Memory", `${count(Math.ceil(bytes / 1024))} KiB`]
		])
	}

	ringOf = ({level}) => this.rings.find(ring => ring.level.level === Number(level))

	// Return the part of the calendar that a slot covers, in ms.
	span({level, slot}) {
		const {since, slot_ns, hand} = this.ringOf({level}).level
		const from = since + ((slot - hand + SLOTS) % SLOTS) * (slot_ns / 1e6)
		return {from: Math.floor(Math.max(from, now_ms())), until: Math.ceil(from + slot_ns / 1e6)}
	}

	address(place) {
		return viewAddress("overview", this.span(place))
	}

	point(place) {
		const line = byId("slot")
		if (place.slot === undefined) return void (line.textContent = "")
		const {from, until} = this.span(place),
			n = this.ringOf(place).level.counts[place.slot] ?? 0
		line.textContent = `${plural(n, "job")} from ${moment(from)} to ${moment(until)}`
	}

	build(shown, names) {
		this.names = names
		const each = (OUTER - INNER) / shown.length
		this.rings = shown.map((level, i) => new Ring(level.level, INNER + i * each + 2, INNER + (i + 1) * each - 1))
		this.chart.replaceChildren(...this.rings.map(ring => ring.node))
	}

	// The hands move on between two answers, while the wheel is visible.
	turn() {
		cancelAnimationFrame(this.frame)
		if (byId("rings").closest("[hidden]")) return
		const passed_ns = (performance.now() - this.read_at) * 1e6
		for (const ring of this.rings) ring.turn(passed_ns)
		this.frame = requestAnimationFrame(() => this.turn())
	}
}

const isFar = ({slot_ns}) => slot_ns >= FAR_NS && slot_ns < MOST_NS

const sum = levels => levels.flatMap(({counts}) => Object.values(counts)).reduce((a, b) => a + b, 0)

class Ring {
	constructor(level, inner, outer) {
		this.slots = Array.from({length: SLOTS}, (_, i) =>
			svg("path", {d: wedge(i, SLOTS, GAP, inner, outer), class: "h0", "data-level": level, "data-slot": i})
		)
		this.hand = svg("path", {class: "ring-hand", d: wedge(0, SLOTS, GAP, inner - 1, outer + 1)})
		this.node = svg("g", {}, ...this.slots, this.hand)
	}

	fill(level) {
		this.level = level
		this.slots.forEach((slot, i) => paint(slot, level.counts[i] ?? 0))
		this.hand.setAttribute(
			"visibility",
			(level.slot_ns * SLOTS) / 1e6 < FASTEST_MS || CALM.matches ? "hidden" : "visible"
		)
	}

	turn(passed_ns) {
		const {hand, slot_ns, into_ns} = this.level
		const at = Math.floor(hand + (into_ns + passed_ns) / slot_ns) % SLOTS
		if (at !== this.at) this.hand.setAttribute("transform", `rotate(${(at * 360) / SLOTS})`)
		this.at = at
	}
}

const UNITS = [
	[86_400e9, "d"],
	[3600e9, "h"],
	[60e9, "min"],
	[1e9, "s"],
	[1e6, "ms"],
	[1e3, "µs"]
]

function ns(n) {
	const years = n / (365.25 * 86_400e9)
	if (years >= 1) return `${count(Math.round(years))} y`
	const [size, unit] = UNITS.find(([least]) => n >= least) ?? [1, "ns"]
	return `${Number((n / size).toPrecision(3))} ${unit}`
}
