// The past of the river before its dots. It has the figures of all nodes by minute. Deploys, deaths and takeovers are
// marks.

import {call} from "./api.js"
import {latePart, S} from "./axis.js"
import {clockTime, moment, printable} from "./words.js"

const MIN = 60 * S
const ACTS_MAX = 1000
const MARK_PX = 6
const MARKS = {
	deployed: {sign: "▲", say: ({note, by}) => `version ${note} deployed, on ${by}`},
	node_died: {sign: "✝", say: ({key}) => `${key} died`},
	took_over: {sign: "⇄", say: ({key, note}) => `${key} took over: ${note}`}
}

export class Past {
	// There are `bands` of lateness. `kinds` has the places of the succeeded, failed and dead outcomes among all kinds.
	constructor(bands, kinds, number) {
		Object.assign(this, {bands, kinds, number, rows: new Map(), columns: [], marks: [], from: Infinity})
	}

	// Request the last `span` ms, or the new part of them.
	async read(now, span) {
		const isNew = now - span < this.from
		const since = (isNew ? now - span : now - 3 * MIN) / S
		const [{minutes, edges_ms}, {acts}] = await Promise.all([
			call("GET", `/v1/minutes?lanes=false&since=${since}`),
			call("GET", `/v1/acts?limit=${ACTS_MAX}&since=${(now - span) / S}`)
		])
		if (isNew) {
			this.rows.clear()
			this.from = now - span
		}
		for (const each of minutes) this.rows.set(`${each.at} ${each.node}`, each)
		this.columns = this.summed(edges_ms)
		this.marks = acts
			.filter(({outcome}) => outcome in MARKS)
			.map(act => ({
				at: Date.parse(act.at),
				sign: MARKS[act.outcome].sign,
				text: printable(MARKS[act.outcome].say(act))
			}))
	}

	// A column for each minute or quarter of an hour, of all nodes.
	summed(edges) {
		const columns = new Map()
		const bandOf = late => Math.floor(this.bands * latePart(late))
		for (const {at, span_s, total} of this.rows.values()) {
			const left = Date.parse(at)
			if (!columns.has(left))
				columns.set(left, {
					from: left,
					until: left + S * span_s,
					latest: 0,
					counts: new Array(this.number).fill(0),
					bits: new Uint32Array(2 * this.number)
				})
			const column = columns.get(left),
				{fired, failed, dead, lateness, late_max_ms} = total
			const ends = [fired - failed, Math.max(0, failed - dead), dead]
			column.latest = Math.max(column.latest, late_max_ms)
			this.kinds.forEach((kind, i) => {
				column.counts[kind] += Math.max(0, ends[i])
				if (ends[i] <= 0) return
				lateness.forEach((n, step) => {
					if (!n) return
					const last = bandOf(Math.min(edges[step] ?? Infinity, late_max_ms))
					for (let band = Math.min(last, bandOf(step ? edges[step - 1] : 0)); band <= last; band++)
						column.bits[2 * kind + (band >> 5)] |= 1 << (band & 31)
				})
			})
		}
		return [...columns.values()].sort((a, b) => a.from - b.from)
	}

	// Draw the part before `until` with `paint`, which draws a column of a few px.
	draw(axis, until, paint) {
		let column = null
		for (const each of this.columns) {
			const right = axis.x(each.until)
			if (right < 0 || each.until > until) continue
			const left = Math.max(0, axis.x(each.from))
			if (column && left - column.left >= 2) {
				paint(column)
				column = null
			}
			column ??= {left, counts: new Array(this.number).fill(0), bits: new Uint32Array(2 * this.number)}
			column.right = right
			each.counts.forEach((n, kind) => (column.counts[kind] += n))
			each.bits.forEach((bits, i) => (column.bits[i] |= bits))
		}
		if (column) paint(column)
	}

	drawMarks(g, axis) {
		g.fillStyle = axis.text
		g.textAlign = "center"
		for (const {at, sign} of this.marks) {
			const x = axis.x(at)
			if (x < 0) continue
			g.globalAlpha = 0.4
			g.fillRect(x - 0.5, 12, 1, axis.height - 12)
			g.globalAlpha = 1
			g.fillText(sign, Math.max(5, x), 10)
		}
	}

	// Add to `sums` the firings from `from` until `until`, but not after `last`.
	within(from, until, last, sums) {
		for (const each of this.columns) {
			const middle = (each.from + each.until) / 2
			if (middle < from || middle >= until || each.until > last) continue
			each.counts.forEach((n, kind) => (sums.counts[kind] += n))
			sums.latest = Math.max(sums.latest, each.latest)
		}
	}

	// Describe the events of nodes in a span.
	said(from, until) {
		const found = this.marks.filter(({at}) => from <= at && at < until).reverse()
		return found.map(({at, text}) => `${clockTime(at)} ${text}`).join("; ")
	}

	markAt(axis, x) {
		const found = this.marks.find(({at}) => Math.abs(axis.x(at) - x) <= MARK_PX)
		return found && `${moment(found.at)} ${found.text}`
	}
}
