// The firings that no longer have dots in the river: their outcomes and lateness for each second, in constant memory.

import {PAST, S} from "./axis.js"

const SECONDS = PAST / S + 1
export const BANDS = 64
const WORD = 32 // number of lateness bands in a word, one bit each
const COLUMN_PX = 2
const EMPTY = -1

export class Older {
	// There are `kinds` of outcomes. `band` returns the part of the axis of lateness, from 0 to 1, where one is drawn.
	constructor(kinds, died, band) {
		Object.assign(this, {kinds, died, band})
		this.second = new Float64Array(SECONDS).fill(EMPTY) // the second of each row
		this.latest = new Float64Array(SECONDS)
		this.due = new Float64Array(SECONDS) // the due time of the first dead firing
		this.counts = new Uint32Array(SECONDS * kinds)
		this.shown = new Int8Array(BANDS + 1) // the kind that a band of a column shows, or -1
		this.bits = new Uint32Array(SECONDS * kinds * (BANDS / WORD))
	}

	add(at, late, kind) {
		const row = this.rowOf(at)
		if (row < 0) return
		const place = row * this.kinds + kind,
			band = Math.min(BANDS - 1, Math.floor(BANDS * this.band(late)))
		this.counts[place]++
		this.bits[2 * place + (band >= WORD)] |= 1 << (band % WORD)
		this.latest[row] = Math.max(this.latest[row], late)
		if (kind === this.died) this.due[row] = Math.min(this.due[row], at - late)
	}

	// Remove a firing from the counts, because its outcome has changed.
	remove(at, kind) {
		const second = Math.floor(at / S),
			row = second % SECONDS,
			place = row * this.kinds + kind
		if (this.second[row] !== second || !this.counts[place]) return
		if (--this.counts[place] === 0) this.bits.fill(0, 2 * place, 2 * place + 2)
	}

	// Return the row of an instant. It is emptied if it has an older second. Return -1 if it has a newer one.
	rowOf(at) {
		const second = Math.floor(at / S),
			row = second % SECONDS
		if (this.second[row] > second) return -1
		if (this.second[row] < second) {
			this.second[row] = second
			this.latest[row] = 0
			this.due[row] = Infinity
			this.counts.fill(0, row * this.kinds, (row + 1) * this.kinds)
			this.bits.fill(0, 2 * row * this.kinds, 2 * (row + 1) * this.kinds)
		}
		return row
	}

	// A column for each second, or for the seconds within a few px, from the oldest on.
	draw(g, axis, colours) {
		const last = Math.floor(axis.now / S)
		let column = null
		for (let second = last - SECONDS + 1; second <= last; second++) {
			const row = second % SECONDS,
				left = axis.x(second * S),
				right = axis.x((second + 1) * S)
			if (this.second[row] !== second || right < 0) continue
			if (column && Math.floor(left / COLUMN_PX) !== Math.floor(column.left / COLUMN_PX)) {
				this.drawColumn(g, axis, colours, column)
				column = null
			}
			column ??= {
				left: Math.max(0, left),
				counts: new Array(this.kinds).fill(0),
				bits: new Uint32Array(2 * this.kinds)
			}
			column.right = right
			for (let kind = 0; kind < this.kinds; kind++) column.counts[kind] += this.counts[row * this.kinds + kind]
			for (let i = 0; i < column.bits.length; i++) column.bits[i] |= this.bits[2 * row * this.kinds + i]
		}
		if (column) this.drawColumn(g, axis, colours, column)
	}

	// The column is as high as its firings were late, in the colour of most of them. Each other outcome has its share
	// of that height, at least a band, at the top of its lateness.
	drawColumn(g, axis, colours, {left, right, counts, bits}) {
		const most = counts.indexOf(Math.max(...counts)),
			total = counts.reduce((sum, n) => sum + n, 0)
		const has = (kind, band) => (bits[2 * kind + (band >= WORD)] >>> (band % WORD)) & 1
		const shown = this.shown.fill(-1)
		let high = 0
		for (let band = 0; band < BANDS; band++)
			if (counts.some((n, kind) => n && has(kind, band))) (shown[band] = most), high++
		for (let kind = 0; kind < this.kinds; kind++) {
			let rest = kind === most || !counts[kind] ? 0 : Math.max(1, Math.round((high * counts[kind]) / total))
			for (let band = BANDS - 1; rest > 0 && band >= 0; band--) if (has(kind, band)) (shown[band] = kind), rest--
		}
		const tall = axis.height / BANDS,
			width = Math.max(COLUMN_PX, right - left)
		for (let band = 0, from = 0; band < BANDS; band++) {
			if (shown[band + 1] === shown[band]) continue
			if (shown[band] >= 0) {
				g.fillStyle = colours[shown[band]]
				g.fillRect(left, axis.height - (band + 1) * tall, width, (band + 1 - from) * tall)
			}
			from = band + 1
		}
	}

	// Add to `sums` the firings in the seconds whose middle is from `from` until `until`.
	within(from, until, sums) {
		for (let row = 0; row < SECONDS; row++) {
			const middle = (this.second[row] + 0.5) * S
			if (this.second[row] === EMPTY || middle < from || middle >= until) continue
			for (let kind = 0; kind < this.kinds; kind++) sums.counts[kind] += this.counts[row * this.kinds + kind]
			sums.latest = Math.max(sums.latest, this.latest[row])
			sums.due = Math.min(sums.due, this.due[row])
		}
	}
}
