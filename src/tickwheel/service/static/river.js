// The river of time. To the left is the past, where each firing is a dot as high as it was late. In the middle is now.
// To the right are the due jobs: the river is wide where they are dense, so a burst swells on its way to now. A span is
// selected by pointer or keys.
//
// The counts are those of the strips, which the page requests anyway, and which are as fine around now as the axis is.
// The river is drawn only while it is visible, and as often as something in it moves. Near now this is in every frame.
// If nothing moves, nothing is drawn.

import {Axis, FUTURE, PASTS, S} from "./axis.js"
import {byId, el} from "./dom.js"
import {Dots} from "./dots.js"
import {heat} from "./strips.js"
import {count, length, moment, now_ms, plural} from "./words.js"

const CALM = matchMedia("(prefers-reduced-motion: reduce)")
const DARK = matchMedia("(prefers-color-scheme: dark)")
const HEATS = Array.from({length: 10}, (_, i) => `--h${i}`)
const FLOW_DECADES = 5 // decades above 0.1 jobs per second: at 10,000 the river is as wide as the plot is high
const DRAG_PX = 4
const MOVE_PX = 0.25 // a smaller movement cannot be seen
const FRAME_MS = 17

// The arrow keys step through these spans around now.
const AHEAD = [0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 57_600, 86_400].map(
	s => s * S
)
const BACK = [...AHEAD, 2 * FUTURE].slice(1)
const STEPS = {
	ArrowLeft: -1,
	ArrowDown: -1,
	ArrowRight: 1,
	ArrowUp: 1,
	PageDown: -5,
	PageUp: 5,
	Home: -99,
	End: 99
}
const ZOOMS = {"+": -1, "=": -1, "-": 1}
const PINCH = 1.3 // factor of a pinch that counts as one step

const HINT =
	"Select a span with the pointer or the arrow keys, to list what is in it, and move, spread, pause, cancel or replay " +
	"it. Wheel, pinch, + and − zoom the past."

const bound = (value, least, most) => Math.min(most, Math.max(least, value))

export class River {
	// `onOpen` gets the key of a dot. `onPick` gets what to list: a part of the calendar, and the state of its jobs.
	constructor(canvas, onOpen, onPick) {
		Object.assign(this, {
			canvas,
			onOpen,
			onPick,
			axis: new Axis(),
			dots: new Dots(() => this.look()),
			cells: [],
			span: null,
			pointer: null,
			grip: null,
			fingers: new Map()
		})
		this.g = canvas.getContext("2d")
		this.turn = this.turn.bind(this)
		this.whose = el("span")
		byId("river-ends").append(this.whose, ...this.dots.marks, "Right: due, of all processes")
		this.takeOthers({number: 0, firings: []})
		const on = (name, act) => canvas.addEventListener(name, event => (act(event), this.look()))
		on("pointerdown", event => this.grasp(event))
		on("pointermove", event => this.follow(event))
		on("pointerup", event => this.release(event))
		on("pointercancel", event => ((this.grip = null), this.fingers.delete(event.pointerId)))
		on("pointerleave", () => (this.pointer = null))
		on("wheel", event => this.zoom(Math.sign(event.deltaY)) && event.preventDefault())
		on("keydown", event => this.press(event))
		DARK.addEventListener("change", () => this.fit())
		new ResizeObserver(() => this.fit()).observe(canvas)
		new IntersectionObserver(seen => ((this.isSeen = seen.at(-1).isIntersecting), this.look())).observe(canvas)
	}

	// The counts of the strips, with each instant once. A coarser strip continues where the finer one ends.
	show(strips) {
		let end = 0
		this.cells = []
		for (const {since, step_s, counts} of strips) {
			const first = Date.parse(since),
				step = step_s * S
			counts.forEach((n, i) => {
				const until = first + (i + 1) * step
				if (until > end) this.cells.push({n, step, from: Math.max(end, until - step), until})
			})
			end = this.cells.at(-1).until
		}
		const isEmpty = !this.cells.some(({n}) => n)
		if (document.activeElement !== this.canvas) this.name() // a change of the name would interrupt a screen reader
		if (!isEmpty || !this.wasEmpty) this.look()
		this.wasEmpty = isEmpty
	}

	// Show the last firings of `number` other nodes.
	takeOthers({number, firings}) {
		const others = number ? ` and by ${plural(number, "other")} (the last 50 of each report)` : ""
		this.whose.textContent = `Left, fired by this process${others}:`
		this.dots.take({firings}, true)
	}

	// Show `steps` more of the past, or fewer if negative. Return false at the end of the range.
	zoom(steps) {
		const {axis} = this,
			past = PASTS[bound(PASTS.indexOf(axis.past) + steps, 0, PASTS.length - 1)]
		if (past === axis.past) return false
		axis.past = past
		this.canvas.setAttribute("aria-valuemin", -past / S)
		this.fit()
		this.readPast()
		return true
	}

	// Read the past of all nodes from the store.
	readPast() {
		return this.dots.past.read(now_ms(), this.axis.past).then(
			() => this.look(),
			() => null
		)
	}

	// The part of the calendar that the list below shows, or none.
	mark({from, until}) {
		this.span = from && until ? {from, until} : null
		this.look()
	}

	look() {
		this.isStale = true
		if (this.isSeen && !this.frame) this.frame = requestAnimationFrame(this.turn)
	}

	// Draw now, and again when something has moved. If the reader prefers less motion, draw at most once a second.
	turn() {
		this.frame = 0
		this.draw()
		clearTimeout(this.timer)
		const rest = this.rest()
		if (!this.isSeen || rest === Infinity) return
		const again = () => (this.frame ||= requestAnimationFrame(this.turn))
		if (CALM.matches) this.timer = setTimeout(again, Math.max(rest, S - (now_ms() % S)))
		else if (rest > FRAME_MS) this.timer = setTimeout(again, rest)
		else again()
	}

	// Milliseconds until the firing or cell nearest to now has moved by MOVE_PX. Infinity if there is none.
	rest() {
		const {axis} = this,
			gone = axis.now - this.dots.last(axis.now)
		const due = this.cells.find(({n, until}) => n && until > axis.now)
		const back = gone < axis.past ? axis.rest(gone, axis.past) : Infinity
		return Math.min(back, due ? axis.rest(Math.max(0, due.from - axis.now), FUTURE) : Infinity) * MOVE_PX
	}

	// The colours are those of the style sheet, for light or dark.
	fit() {
		const {canvas, axis, g} = this
		if (!canvas.clientWidth) return
		const colour = name => ((canvas.style.color = `var(${name})`), getComputedStyle(canvas).color)
		this.heats = HEATS.map(colour)
		this.accent = colour("--accent")
		this.dots.paint()
		this.ratio = devicePixelRatio
		axis.fit(canvas, {edge: colour("--edge"), muted: colour("--muted"), text: colour("--text")}, this.ratio)
		Object.assign(canvas, {width: axis.ground.width, height: axis.ground.height})
		g.scale(this.ratio, this.ratio)
		this.draw()
	}

	draw() {
		const {g, axis} = this
		if (this.ratio !== devicePixelRatio) return this.fit()
		axis.now = CALM.matches ? Math.floor(now_ms() / S) * S : now_ms()
		axis.draw(g)
		this.drawDue(g, axis)
		this.dots.draw(g, axis)
		this.dots.past.drawMarks(g, axis)
		if (this.span) this.drawSpan(g, axis)
		if (this.isStale) this.say()
	}

	// The river is wider for more jobs per second. Its colour is that of the strips for the same number per minute.
	drawDue(g, axis) {
		for (const {n, step, from, until} of this.cells) {
			if (!n || until <= axis.now) continue
			const left = axis.x(Math.max(from, axis.now)),
				a_second = (n * S) / step
			const tall = Math.max(2, axis.height * Math.min(1, Math.log10(1 + 10 * a_second) / FLOW_DECADES))
			g.fillStyle = this.heats[Math.max(1, heat(60 * a_second))]
			g.fillRect(left, (axis.height - tall) / 2, axis.x(until) - left + 0.5, tall) // half a px more, so that no seam is visible
		}
	}

	drawSpan(g, axis) {
		const left = bound(axis.x(this.span.from), 0, axis.width),
			right = bound(axis.x(this.span.until), 0, axis.width)
		g.fillStyle = this.accent
		g.globalAlpha = 0.22
		g.fillRect(left, 0, right - left, axis.height)
		g.globalAlpha = 1
		g.fillRect(left, 0, 1.5, axis.height)
		g.fillRect(right - 1.5, 0, 1.5, axis.height)
	}

	// Describe the place under the pointer, or the span. A screen reader announces the span, which is chosen by keys.
	say() {
		this.isStale = false
		const {axis, canvas, pointer} = this
		const chosen = this.span && this.describe(this.span)
		const around = () => this.describe({from: axis.at(pointer.x - DRAG_PX), until: axis.at(pointer.x + DRAG_PX)})
		const text =
			pointer && !this.grip?.isDrag
				? (this.dot()?.text ?? this.dots.past.markAt(axis, pointer.x) ?? around())
				: (chosen ?? HINT)
		if (byId("river-said").textContent !== text) byId("river-said").textContent = text
		canvas.setAttribute("aria-valuetext", chosen ?? "now")
		canvas.setAttribute(
			"aria-valuenow",
			this.span ? bound(Math.round((this.span.from - axis.now) / S), -axis.past / S, FUTURE / S) : 0
		)
	}

	name() {
		const {past} = this.axis,
			{text} = this.dots.within(now_ms() - past, now_ms() + past)
		const peak = this.cells.reduce((most, cell) => (cell.n / cell.step > most.n / most.step ? cell : most), {
			n: 0,
			step: 1
		})
		const densest = peak.n ? `, densest at ${moment(peak.from)}` : ""
		const due = this.due(0, Infinity)
		this.canvas.setAttribute(
			"aria-label",
			`The river of time. In the last ${past === PASTS[0] ? "ten minutes" : length(past)}, as seen from here: ${text}. ` +
				`In the next day: ${count(due)} due${densest}. ` +
				"Arrow keys choose a span, with Shift they extend it, Enter lists it, + and − zoom the past."
		)
	}

	describe({from, until}) {
		const {now} = this.axis,
			parts = []
		if (from < now) parts.push(this.dots.within(from, until).text, this.dots.past.said(from, until))
		if (until > now) parts.push(`about ${plural(this.due(Math.max(from, now), until), "job")} due`)
		return `${moment(from)} – ${moment(until)}: ${parts.filter(Boolean).join("; ")}`
	}

	// About how many jobs are due, by the shares of the cells. The list and its form count exactly.
	due(from, until) {
		const share = cell => Math.max(0, Math.min(until, cell.until) - Math.max(from, cell.from)) / cell.step
		return Math.round(this.cells.reduce((sum, cell) => sum + cell.n * share(cell), 0))
	}

	dot() {
		return this.dots.nearest(this.axis, this.pointer.x, this.pointer.y)
	}

	cellAt(at) {
		return this.cells.find(({from, until}) => from <= at && at < until)
	}

	grasp(event) {
		this.follow(event)
		if (event.button) return
		this.canvas.setPointerCapture(event.pointerId)
		this.fingers.set(event.pointerId, event.offsetX)
		if (this.fingers.size > 1) return void Object.assign(this, {grip: null, wide: this.reach()})
		this.grip = {x: event.offsetX, at: this.axis.at(event.offsetX), isDrag: false}
	}

	// Return the distance of two fingers.
	reach() {
		const places = [...this.fingers.values()]
		return Math.max(1, Math.max(...places) - Math.min(...places))
	}

	follow({offsetX, offsetY, pointerId}) {
		this.pointer = {x: offsetX, y: offsetY}
		if (this.fingers.has(pointerId)) this.fingers.set(pointerId, offsetX)
		if (this.fingers.size > 1) {
			const ratio = this.reach() / this.wide
			if (ratio < PINCH && ratio > 1 / PINCH) return
			this.wide = this.reach()
			return void this.zoom(ratio > 1 ? -1 : 1)
		}
		const {grip} = this
		if (!grip) return
		grip.isDrag ||= Math.abs(offsetX - grip.x) > DRAG_PX
		if (grip.isDrag) this.select(grip.at, this.axis.at(offsetX))
	}

	// A drag has selected a span. A press without a drag is on a dot, or on a cell of due jobs.
	release({pointerId}) {
		this.fingers.delete(pointerId)
		const {grip} = this
		this.grip = null
		if (!grip) return
		if (grip.isDrag) return this.pick(this.span)
		const dot = this.dot(),
			cell = grip.at > this.axis.now && this.cellAt(grip.at)
		if (dot) this.onOpen(dot.key)
		else if (cell) this.pick(cell)
	}

	press(event) {
		const {key, shiftKey} = event
		if (key in ZOOMS) this.zoom(ZOOMS[key])
		else if (key in STEPS) this.go(STEPS[key], shiftKey)
		else if (key === "Enter" && this.span) this.pick(this.span)
		else if (key === "Escape") this.span = this.stop = null
		else return
		event.preventDefault()
	}

	go(step, isExtending) {
		this.pointer = null // the choice of the keys is announced, not the place of the pointer
		const back = BACK.filter(ms => ms <= this.axis.past).map(ms => -ms),
			stops = [...back.reverse(), ...AHEAD]
		const place = (this.stop ?? (step > 0 ? -1 : 0)) + back.length + step // counted from now
		const i = bound(place, 0, stops.length - 2),
			from = now_ms() + stops[i],
			until = now_ms() + stops[i + 1]
		this.stop = i - back.length
		if (!isExtending || !this.span) this.anchor = {from, until}
		this.select(Math.min(from, this.anchor.from), Math.max(until, this.anchor.until))
	}

	// In the future, select whole cells, so that a burst is not cut where the reader cannot see it.
	select(a, b) {
		const now = now_ms(),
			from = Math.min(a, b),
			until = Math.max(a, b)
		this.span = {
			from: from < now ? from : Math.max(now, this.cellAt(from)?.from ?? from),
			until: until <= now ? until : (this.cellAt(until)?.until ?? until)
		}
	}

	// A span in the past leads to its dead letters. Letters that died in it may have been due earlier.
	pick({from, until}) {
		const isOver = until <= now_ms(),
			first = isOver ? this.dots.within(from, until).due : from
		this.onPick({
			part: {from: Math.floor(first), until: Math.ceil(until)},
			prefix: "",
			state: isOver ? "dead" : "pending"
		})
	}
}
