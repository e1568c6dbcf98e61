// The heat strips: the number of jobs due in each part of the next minute, hour and day. A dark cell is a burst.

import {el, svg} from "./dom.js"
import {clockTime, count, length, moment, now_ms, plural} from "./words.js"

const TITLES = {minute: "next minute", hour: "next hour", day: "next day"}

// Nine levels, each about three times the previous one. So a colour means the same on every strip and on every day.
const LEVELS = [1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000]

export const heat = n => LEVELS.filter(least => n >= least).length

// Colour a cell for `n` jobs, if its colour changes.
export function paint(cell, n) {
	const name = `h${heat(n)}`
	if (cell.getAttribute("class") !== name) cell.setAttribute("class", name)
}

export class Strips {
	constructor(parent, onPick) {
		this.parent = parent
		this.onPick = onPick
		this.strips = new Map()
		this.legend = el("p", {class: "legend", "aria-hidden": "true"})
		for (const least of [0, ...LEVELS])
			this.legend.append(el("span", {class: `key h${heat(least)}`}), count(least, 1000))
	}

	show(strips) {
		for (const data of strips) {
			if (!this.strips.has(data.name)) {
				const strip = new Strip(data, this.onPick)
				this.strips.set(data.name, strip)
				this.parent.append(strip.node)
			}
			this.strips.get(data.name).show(data)
		}
		this.parent.append(this.legend)
	}
}

class Strip {
	constructor({counts}, onPick) {
		this.onPick = onPick
		this.at = -1
		this.total = el("span", {class: "total"})
		this.peak = el("span", {class: "peak"})
		this.name = el("span", {class: "name"})
		this.cells = counts.map((_, i) => svg("rect", {x: i * 10, width: 9, height: 22, rx: 1.5, "data-i": i}))
		this.chart = svg(
			"svg",
			{viewBox: `0 0 ${counts.length * 10 - 1} 22`, preserveAspectRatio: "none", tabindex: 0, role: "group"},
			...this.cells
		)
		this.node = el("div", {class: "strip"}, el("p", {}, this.name, this.total, this.peak), this.chart)
		this.chart.addEventListener("pointermove", event => this.point(Number(event.target.dataset.i ?? this.at)))
		this.chart.addEventListener("pointerleave", () => this.point(-1))
		this.chart.addEventListener("blur", () => this.point(-1))
		this.chart.addEventListener("click", () => this.pick())
		this.chart.addEventListener("keydown", event => this.press(event))
	}

	show({name, since, step_s, counts}) {
		Object.assign(this, {counts, from_ms: Date.parse(since), step_ms: 1000 * step_s})
		counts.forEach((n, i) => paint(this.cells[i], n))
		const total = counts.reduce((sum, n) => sum + n, 0)
		const highest = counts.indexOf(Math.max(...counts))
		this.total.textContent = plural(total, "job")
		this.name.textContent = `${TITLES[name]}, by ${length(this.step_ms)}`
		this.rest = total ? `peak ${count(counts[highest])} at ${this.label(highest)}` : ""
		this.chart.setAttribute(
			"aria-label",
			`${this.name.textContent}: ${plural(total, "job")} due. ${this.rest} Arrow keys read the cells, Enter lists one.`
		)
		this.point(this.at)
	}

	label(i) {
		const start = this.from_ms + i * this.step_ms
		return this.step_ms < 60_000 ? clockTime(start) : moment(start).replace(/:\d\d$/, "")
	}

	point(i) {
		this.cells[this.at]?.classList.remove("at")
		this.at = i
		this.cells[i]?.classList.add("at")
		this.peak.textContent = i < 0 ? this.rest : `${this.label(i)}, ${plural(this.counts[i], "job")}`
		this.peak.setAttribute("aria-live", i < 0 ? "off" : "polite")
	}

	press(event) {
		const last = this.counts.length - 1
		const moves = {ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 0, End: last}
		if (event.key in moves) this.point(Math.max(0, Math.min(last, moves[event.key])))
		else if (event.key === "Enter") this.pick()
		else return
		event.preventDefault()
	}

	pick() {
		if (this.at < 0) return
		const from = this.at === 0 ? Math.floor(now_ms()) : this.from_ms + this.at * this.step_ms
		this.onPick({from, until: this.from_ms + (this.at + 1) * this.step_ms})
	}
}
