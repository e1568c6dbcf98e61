// The axes of the river: time from left to right with now in the middle, and lateness upwards.
//
// The scale of time is linear around now and logarithmic far from it. It covers ten minutes to two days of the past and
// a day of the future. So the seconds of a burst and the hours of a day are in one picture, and events become wider as
// they come nearer.

import {length} from "./words.js"

const MIN = 60_000,
	H = 60 * MIN
export const S = 1000
export const PAST = 10 * MIN
export const FUTURE = 24 * H

const BEND = 10 * S
export const PASTS = [PAST, H, 4 * H, 12 * H, 48 * H] // lengths of the shown past, from zoomed in to zoomed out
const TICKS = [10 * S, MIN, 10 * MIN, H, 6 * H, 24 * H]
const TICK_PX = 46 // minimum distance of two ticks, so that their texts do not touch
const WORDS_PX = 18 // height of the texts below the plot
const LATE_LEAST = 0.1,
	DECADES = 6 // up to 100 s
const LATE_TICKS = [
	[1, "1 ms late"],
	[100, "100 ms late"],
	[10_000, "10 s late"]
]

const bent = ms => Math.log1p(ms / BEND)

// The place on the axis of lateness, from 0 to 1.
export function latePart(late) {
	const part = Math.log10(Math.max(late, LATE_LEAST) / LATE_LEAST) / DECADES
	return Math.min(0.98, Math.max(0.02, part))
}

export class Axis {
	past = PAST

	// Draw once, into a picture with which each frame begins, because drawing text is slow.
	fit(canvas, colours, ratio) {
		const {width, height} = canvas.getBoundingClientRect()
		Object.assign(this, colours, {width, height: height - WORDS_PX, ratio, now: 0})
		this.ground = new OffscreenCanvas(Math.round(width * ratio), Math.round(height * ratio))
		const g = this.ground.getContext("2d")
		g.scale(ratio, ratio)
		g.font = `11px ${getComputedStyle(canvas).fontFamily}`
		this.drawGround(g)
	}

	// Return the place of an instant.
	x(at) {
		const ahead = at - this.now,
			half = this.width / 2
		return ahead < 0 ? half * (1 - bent(-ahead) / bent(this.past)) : half * (1 + bent(ahead) / bent(FUTURE))
	}

	// Return the instant at a place.
	at(x) {
		const part = Math.min(1, Math.max(-1, (2 * x) / this.width - 1))
		return part < 0
			? this.now - BEND * Math.expm1(-part * bent(this.past))
			: this.now + BEND * Math.expm1(part * bent(FUTURE))
	}

	// Return the milliseconds in which a point `ms` away from now moves by one pixel. The point is on the side that
	// ends `end` away from now.
	rest(ms, end) {
		return ((BEND + ms) * bent(end) * 2) / this.width
	}

	y(late) {
		return this.height * (1 - latePart(late))
	}

	draw(g) {
		const width = this.ground.width / this.ratio,
			height = this.ground.height / this.ratio // px for px, so that texts stay sharp
		g.clearRect(0, 0, width, height)
		g.drawImage(this.ground, 0, 0, width, height)
	}

	drawGround(g) {
		const {width, height} = this
		for (const [late, name] of LATE_TICKS) {
			this.line(g, 0, this.y(late), width / 2, 1)
			this.word(g, name, 5, this.y(late) - 4, "left")
		}
		this.side(g, "−", -1, this.past, 0, "left")
		this.side(g, "+", 1, FUTURE, width, "right")
		g.fillStyle = this.text
		g.fillRect(width / 2 - 0.75, 0, 1.5, height + 4)
		this.word(g, "now", width / 2, height + WORDS_PX - 3, "center")
	}

	// Yield the ticks of the past or of the future, where there is room for them.
	side(g, sign, side, end, edge, align) {
		let last = this.width / 2
		for (const ms of TICKS) {
			const x = this.x(this.now + side * ms)
			if (ms >= end || Math.abs(x - last) < TICK_PX || Math.abs(x - edge) < TICK_PX) continue
			this.tick(g, sign + length(ms), x, "center")
			last = x
		}
		this.tick(g, sign + length(end), edge, align)
	}

	tick(g, text, x, align) {
		this.line(g, Math.min(x, this.width - 1), 0, 1, this.height + 4)
		this.word(g, text, x, this.height + WORDS_PX - 3, align)
	}

	line(g, x, y, width, height) {
		g.fillStyle = this.edge
		g.fillRect(x, y, width, height)
	}

	word(g, text, x, y, align) {
		g.fillStyle = this.muted
		g.textAlign = align
		g.fillText(text, x, y)
	}
}
