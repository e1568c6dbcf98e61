// The latest firings, as dots of the river. They are in a ring of plain arrays, so that a frame with thousands of dots
// makes no garbage. Firings that have left the ring are drawn in columns, so the past is complete however many firings
// there are.

import {call} from "./api.js"
import {latePart, PAST} from "./axis.js"
import {el} from "./dom.js"
import {BANDS, Older} from "./older.js"
import {Past} from "./past.js"
import {clockTimeMs, lateness, now_ms, plural, printable} from "./words.js"

const ROOM = 16_384 // half a minute of 500 firings a second
const BEFORE = 500 // the number that the service remembers
const REACH_PX = 10
const CELL_PX = 2 // if dots of one kind cover each other, one is drawn

// The outcomes of a firing: the sign in the legend, the colour, and the shape in px around its place. The shape shows
// the outcome without the colour. Failures are drawn last, so that nothing covers them.
const KINDS = [
	{name: "ended otherwise", sign: "–", colour: "--muted", shape: [[-2.5, -0.5, 5, 1]]},
	{name: "succeeded", sign: "▪", colour: "--good", shape: [[-1.5, -1.5, 3, 3]]},
	{
		name: "running",
		sign: "▫",
		colour: "--accent",
		shape: [
			[-2, -2, 4, 1],
			[-2, 1, 4, 1],
			[-2, -1, 1, 2],
			[1, -1, 1, 2]
		]
	},
	{
		name: "failed",
		sign: "✚",
		colour: "--bad",
		shape: [
			[-3, -0.75, 6, 1.5],
			[-0.75, -3, 1.5, 6]
		]
	},
	{name: "died", sign: "■", colour: "--bad", shape: [[-3, -3, 6, 6]]}
]
const NONE = KINDS.length,
	DIED = KINDS.length - 1,
	RUNNING = 2
const kindOf = outcome =>
	Math.max(
		0,
		KINDS.findIndex(({name}) => name === outcome)
	)

export class Dots {
	// `onTake` is called when there are more firings, or when some have ended.
	constructor(onTake = () => null) {
		this.onTake = onTake
		this.newest = -Infinity
		this.at = new Float64Array(ROOM)
		this.late = new Float64Array(ROOM)
		this.kind = new Uint8Array(ROOM).fill(NONE)
		this.keys = new Array(ROOM).fill("")
		this.nodes = new Array(ROOM).fill("") // the node, if it is another one
		this.places = new Map() // the place by fire id, the oldest first
		this.older = new Older(NONE, DIED, latePart)
		this.past = new Past(BANDS, ["succeeded", "failed", "died"].map(kindOf), NONE)
		this.first = Infinity // the instant of the first firing of this process that is known here
		this.next = this.pass = 0
		this.marks = KINDS.map(({name, sign, colour}) => {
			const mark = el("span", {}, sign)
			mark.style.color = `var(${colour})`
			return el("span", {class: "end"}, mark, ` ${name}`)
		})
	}

	// `isOthers`: the firings are those of other nodes.
	take({firings, is_snapshot}, isOthers = false) {
		for (const {fire_id, key, fired_at, lateness_ms, outcome, by} of firings) {
			const at = Date.parse(fired_at),
				kind = kindOf(outcome),
				known = this.places.get(fire_id),
				i = known ?? this.place(fire_id)
			if (known === undefined && kind !== RUNNING) this.older.remove(at, RUNNING) // it may have been counted there as running
			this.at[i] = at
			this.newest = Math.max(this.newest, at)
			if (!isOthers) this.first = Math.min(this.first, at)
			this.late[i] = lateness_ms
			this.kind[i] = kind
			this.keys[i] = key
			this.nodes[i] = isOthers ? by : ""
		}
		if (firings.length) this.onTake()
		// A stream begins with a few firings.
		if (is_snapshot)
			call("GET", `/v1/firings?nodes=this&limit=${BEFORE}`).then(
				all => this.take(all),
				() => null
			)
	}

	place(id) {
		const i = this.next
		this.next = (i + 1) % ROOM
		if (this.places.size === ROOM) {
			this.places.delete(this.places.keys().next().value)
			this.older.add(this.at[i], this.late[i], this.kind[i])
		}
		this.places.set(id, i)
		return i
	}

	// The colours are those of the legend, for light or dark.
	paint() {
		this.colours = this.marks.map(mark => getComputedStyle(mark.firstElementChild).color)
	}

	draw(g, axis) {
		const columns = Math.ceil(axis.width / CELL_PX),
			cells = columns * Math.ceil(axis.height / CELL_PX)
		if (this.covered?.length !== cells) this.covered = new Uint32Array(cells)
		this.past.draw(axis, this.since(axis.now), column => this.older.drawColumn(g, axis, this.colours, column))
		this.older.draw(g, axis, this.colours)
		for (let kind = 0; kind < NONE; kind++) {
			this.pass++
			g.fillStyle = this.colours[kind]
			for (let i = 0; i < ROOM; i++) {
				if (this.kind[i] !== kind) continue
				const left = axis.x(this.at[i]),
					top = axis.y(this.late[i])
				if (left < 0) continue
				const cell = Math.floor(top / CELL_PX) * columns + Math.floor(left / CELL_PX)
				if (this.covered[cell] === this.pass) continue
				this.covered[cell] = this.pass
				for (const [dx, dy, w, h] of KINDS[kind].shape) g.fillRect(left + dx, top + dy, w, h)
			}
		}
	}

	// The last instant, up to now, at which anything is drawn.
	last(now) {
		const {columns, marks} = this.past
		return Math.min(now, Math.max(this.newest, columns.at(-1)?.until ?? -Infinity, ...marks.map(({at}) => at)))
	}

	// The time from which firings are known one by one, or by the second. Before it they are known by the minute.
	since(now) {
		return Math.max(now - PAST, Math.min(now, this.first))
	}

	// Return the dot nearest to a place, in words and as its key. Return null if there is no dot.
	nearest(axis, left, top) {
		let nearest = -1,
			least = REACH_PX
		for (let i = 0; i < ROOM; i++) {
			if (this.kind[i] === NONE) continue
			const distance = Math.hypot(axis.x(this.at[i]) - left, axis.y(this.late[i]) - top)
			if (distance < least) [nearest, least] = [i, distance]
		}
		if (nearest < 0) return null
		const key = this.keys[nearest],
			node = this.nodes[nearest],
			on = node && `, on ${node}`
		return {
			key,
			text: `${clockTimeMs(this.at[nearest])} ${printable(key)}: ${KINDS[this.kind[nearest]].name}, +${lateness(this.late[nearest])}${on}`
		}
	}

	// Describe the firings from `from` until `until`, and say when the first dead one was due.
	within(from, until) {
		const sums = {counts: new Array(NONE).fill(0), latest: 0, due: from},
			{counts} = sums
		this.older.within(from, until, sums)
		this.past.within(from, until, this.since(now_ms()), sums)
		for (let i = 0; i < ROOM; i++) {
			if (this.kind[i] === NONE || this.at[i] < from || this.at[i] >= until) continue
			counts[this.kind[i]]++
			sums.latest = Math.max(sums.latest, this.late[i])
			if (this.kind[i] === DIED) sums.due = Math.min(sums.due, this.at[i] - this.late[i])
		}
		const total = counts.reduce((sum, n) => sum + n, 0)
		const ends = KINDS.map(({name}, kind) => [counts[kind], name])
			.filter(([n]) => n)
			.map(each => each.join(" "))
		return {
			due: sums.due,
			text: plural(total, "firing") + (total ? `: ${ends.join(", ")}, the latest +${lateness(sums.latest)}` : "")
		}
	}
}
